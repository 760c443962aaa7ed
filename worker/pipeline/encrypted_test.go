package pipeline

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/keys/keystest"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// TestEncryptedPages: streams of encrypted files have the rows of the plain file, and do not read pages that no window
// needs.
func TestEncryptedPages(t *testing.T) {
	dir := keystest.Files(t)
	ring, err := keys.New(keys.Config{File: keystest.KeyFile(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Close)
	program := &pb.Program{
		Provenance: true,
		Sources: []*pb.Source{
			{Name: "id", Path: []string{"id"}, Type: &pb.Type{Kind: pb.Kind_INT64}},
			{Name: "price", Path: []string{"price"}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}},
			{Name: "ids", Path: []string{"ids"}, Type: &pb.Type{Kind: pb.Kind_INT64, List: true}},
			{Name: "text", Path: []string{"text"}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		},
		Outputs: []*pb.Output{
			{Name: "id", Layout: pb.Layout_LABEL, Slots: []uint32{0}, Type: &pb.Type{Kind: pb.Kind_INT64}},
			{
				Name: "price", Layout: pb.Layout_DENSE, Slots: []uint32{1}, Columns: []string{"price"},
				Type: &pb.Type{Kind: pb.Kind_FLOAT32},
			},
			{Name: "ids", Layout: pb.Layout_SPARSE, Slots: []uint32{2}, Type: &pb.Type{Kind: pb.Kind_INT64}},
			{Name: "text", Layout: pb.Layout_BYTES, Slots: []uint32{3}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		},
	}
	want := map[string][]row{}
	for _, name := range []string{"plain", "uniform", "uniform_plaintext", "columns_plaintext", "ctr", "single"} {
		data, err := os.ReadFile(filepath.Join(dir, name+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		store := &pipelinetest.Store{Ring: ring}
		ticket := pipelinetest.Ticket(t, store, store.Put("mem://f.parquet", data), 100)
		read := map[string]int64{}
		for _, filter := range []string{"", "id >= 1250 and id < 1340 and text != 'text 3'"} {
			program.Filter = filter
			p := newPipeline(store, 4096)
			rows, _, err := collect(t.Context(), p, ticket, program, Cursor{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if read[filter] = p.Counters().GetBytesRead(); name == "plain" {
				want[filter] = rows
			}
			if len(rows) == 0 || !reflect.DeepEqual(rows, want[filter]) {
				t.Errorf("%s, filter %q: %d rows, the plain file has %d", name, filter, len(rows), len(want[filter]))
			}
		}
		// of pages this small, the index takes much
		if some, all := read[program.GetFilter()], read[""]; some*4 > all*3 {
			t.Errorf("%s: %d bytes read for 2 windows of 30, %d for all", name, some, all)
		}
	}
}
