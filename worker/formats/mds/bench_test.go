package mds_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// shard is one of samples of 256 tokens, a label and a text.
func shard(samples int) []byte {
	const tokens = 256
	config := fmt.Sprintf(`{"version":2,"format":"mds","column_names":["label","text","tokens"],`+
		`"column_encodings":["int","str","ndarray:int32:%d"],"column_sizes":[8,null,%d]}`, tokens, 4*tokens)
	begin := 4 + 4*(samples+1) + len(config)
	le := binary.LittleEndian
	out, content := le.AppendUint32(nil, uint32(samples)), []byte(nil)
	for i := range samples {
		out = le.AppendUint32(out, uint32(begin+len(content)))
		text := fmt.Sprint("some words of a caption ", i)
		content = le.AppendUint32(content, uint32(len(text)))
		content = le.AppendUint64(content, uint64(i%10))
		content = append(content, text...)
		for j := range tokens {
			content = le.AppendUint32(content, uint32(i*j))
		}
	}
	out = le.AppendUint32(out, uint32(begin+len(content)))
	return slices.Concat(out, []byte(config), content)
}

// BenchmarkDecode decodes all columns.
func BenchmarkDecode(b *testing.B) {
	const samples = 2000
	data := shard(samples)
	b.SetBytes(int64(len(data)))
	formattest.DecodeFile(b, formattest.File{Name: "shard.mds", Data: data}, samples)
}
