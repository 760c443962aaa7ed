package pipeline

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// TestPartitionKeys: of a key that a file's path has, its value is in all rows, whatever the format, and whatever a
// record says that has the name; filters and counting have it, too.
func TestPartitionKeys(t *testing.T) {
	others := "../../internal/formats/filetest/others/"
	files := map[string][]byte{
		"own.jsonl": []byte(strings.Repeat(`{"a": 1}`+"\n", 40_000) + `{"a": 2, "day": 3}` + "\n"),
		"f.arrow":   pipelinetest.Arrow(t, 5, 300, 20),
	}
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
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			var store pipelinetest.Store
			f := store.Put("mem://"+strings.ReplaceAll(name, "/", "_"), data)
			ticket := pipelinetest.Ticket(t, &store, f, 100)
			f.Constants = []*pb.Constant{{Name: "day", Value: &pb.Value{Kind: &pb.Value_Int{Int: 7}}}, {Name: "unread"}}
			all := uint64(0)
			for _, e := range ticket.GetExtents() {
				all += uint64(e.GetRows())
			}
			program := keyed(t, &store, f)
			for filter, want := range map[string]uint64{"": all, "day == 7": all, "day > 7": 0} {
				program.Filter, ticket.ProgramDigest = filter, []byte(filter)
				p := newPipeline(&store, 2000)
				rows, _, err := collect(t.Context(), p, ticket, program, Cursor{})
				if err != nil {
					t.Fatal(err)
				}
				counted, err := p.Count(t.Context(), ticket, program)
				if err != nil {
					t.Fatal(err)
				}
				n := uint64(0)
				for _, e := range counted.GetExtents() {
					for _, outputs := range e.GetOutputs() {
						n += uint64(outputs)
					}
				}
				if uint64(len(rows)) != want || n != want {
					t.Errorf("%q: %d rows, and %d are counted; want %d", filter, len(rows), n, want)
				}
				seven := string(binary.LittleEndian.AppendUint64(nil, 7))
				for _, r := range rows {
					if !strings.Contains(r.values, seven) {
						t.Fatalf("%q: row %d has %q", filter, r.source, r.values)
					}
				}
			}
		})
	}
}

// keyed is a program that reads a key between columns of a file.
func keyed(t *testing.T, store *pipelinetest.Store, f *pb.File) *pb.Program {
	described, err := formats.Load(t.Context(), store, "", f, nil)
	if err != nil {
		t.Fatal(err)
	}
	day := &pb.Source{Name: "day", Path: []string{"day"}, Type: &pb.Type{Kind: pb.Kind_INT64}, Partition: true}
	var sources []*pb.Source
	for _, c := range described.Columns().Schema.Columns {
		if c.Unsupported == "" && c.Key == pb.Kind_KIND_UNSPECIFIED {
			sources = append(sources, &pb.Source{Name: c.Name, Path: c.Path, Type: c.Type.Proto(), Meaning: c.Meaning})
		}
		if len(sources) == 2 {
			break
		}
	}
	at := len(sources) / 2
	sources = append(sources[:at:at], append([]*pb.Source{day}, sources[at:]...)...)
	return &pb.Program{Provenance: true, Sources: sources, Outputs: []*pb.Output{{
		Name: "day", Layout: pb.Layout_LABEL, Slots: []uint32{uint32(at)}, Type: &pb.Type{Kind: pb.Kind_INT64},
	}}}
}
