package formats_test

import (
	"os"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	decoders "github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// TestPartitionKeys: of a key that a file's path has, its value is in all rows, whatever the format, and whatever a
// record says that has the name.
func TestPartitionKeys(t *testing.T) {
	others := "../../internal/formats/filetest/others/"
	files := map[string][]byte{"own.jsonl": []byte(`{"a": 1}` + "\n" + `{"a": 2}` + "\n")}
	for _, name := range []string{
		"webdataset/plain.tar", "csv/pyarrow.csv", "tfrecord/plain.tfrecord", "mds/plain/shard.00000.mds",
		"jsonl/plain.jsonl", "jsonl/plain.jsonl.parquet",
	} {
		data, err := os.ReadFile(others + name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	source := &pb.Source{
		Name: "day", Path: []string{"day"}, Type: &pb.Type{Kind: pb.Kind_INT64}, Partition: true,
	}
	for name, data := range files {
		st := &filetest.One{URI: "mem://" + strings.ReplaceAll(name, "/", "_"), Data: data}
		f := st.File()
		f.Constants = []*pb.Constant{{Name: "day", Value: &pb.Value{Kind: &pb.Value_Int{Int: 7}}}, {Name: "unread"}}
		described, err := formats.Load(t.Context(), st, "", f, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		sources := []*pb.Source{source}
		b, err := format.Bind(f, described, sources)
		if err != nil {
			t.Fatal(name, err)
		}
		d, err := decoders.New(described.Format(), sources)
		if err != nil {
			t.Fatal(name, err)
		}
		d.Memory().Allow(1 << 20)
		rows := int(described.Extents()[0].Rows)
		chunks := make([]decode.Source, b.Chunks())
		for i := range chunks {
			at := b.Chunk(0, i)
			chunk := decode.Whole(data[at.Offset:][:at.Length])
			chunks[i] = &chunk
		}
		if err := d.Reset(f.GetUri(), b, 0, chunks); err != nil {
			t.Fatal(name, err)
		}
		vectors, err := d.Next(rows)
		if err != nil {
			t.Fatal(name, err)
		}
		for i, value := range rowtest.Of(vectors[0]) {
			if value != int64(7) {
				t.Fatalf("%s: row %d has %v", name, i, value)
			}
		}
	}
}
