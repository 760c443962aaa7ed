package tokens_test

import (
	"encoding/binary"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	decoders "github.com/penstock-ml/penstock/worker/formats"
)

// BenchmarkDecode decodes documents of uint16, some 2 MB, as they are and as int64.
func BenchmarkDecode(b *testing.B) {
	const documents, length = 1000, 1024
	ends := make([]byte, 0, 8*documents)
	for i := range uint64(documents) {
		ends = binary.LittleEndian.AppendUint64(ends, (i+1)*length)
	}
	st := folder{"a.ds": make([]byte, 2*documents*length), "a.ds.index": ends}
	for name, kind := range map[string]pb.Kind{"own": pb.Kind_UINT16, "wide": pb.Kind_INT64} {
		b.Run(name, func(b *testing.B) {
			sources := []*pb.Source{{Name: "t", Path: []string{"tokens"}, Type: &pb.Type{Kind: kind, List: true}}}
			file, err := formats.NewCache(1<<20).Whole(b.Context(), st, "", st.file("a.ds"), nil, sources)
			if err != nil {
				b.Fatal(err)
			}
			bound, err := file.Bind(sources)
			if err != nil {
				b.Fatal(err)
			}
			d, err := decoders.New(file.Format(), sources)
			if err != nil {
				b.Fatal(err)
			}
			d.Memory().Allow(32 << 20)
			b.SetBytes(int64(len(st["a.ds"])))
			b.ReportAllocs()
			for b.Loop() {
				for extent, e := range file.Extents() {
					err := begin(d, bound, extent, st["a.ds"], 0)
					if err == nil {
						_, err = d.Next(int(e.Rows))
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
