package features_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Columns are those of all files, each once, maps as a whole.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	own := arrow.Field{Name: "b", Type: arrow.PrimitiveTypes.Int64, Nullable: true}
	for i, more := range []arrow.Field{
		{Name: "m", Type: arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32)},
		{Name: "a", Type: arrow.StructOf(arrow.Field{Name: "key", Type: arrow.PrimitiveTypes.Int32, Nullable: true})},
		{Name: "n", Type: arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.MapOf(arrow.BinaryTypes.String,
			arrow.PrimitiveTypes.Float32))},
	} {
		latin := arrow.Field{Name: "z\xe4hler", Type: arrow.PrimitiveTypes.Int64, Nullable: true} // not UTF-8
		schema := arrow.NewSchema([]arrow.Field{own, latin, more}, nil)
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i, ".parquet")))
		check(t, err)
		w, err := pqarrow.NewFileWriter(schema, f, nil, pqarrow.DefaultWriterProps())
		check(t, err)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		check(t, b.UnmarshalJSON([]byte(`{"b": 1, "m": [{"key": 1, "value": 2}], "a": {"key": 3},
			"n": [{"key": 1, "value": [{"key": "x", "value": 2}]}]}`)))
		check(t, w.Write(b.NewRecord()))
		check(t, w.Close())
	}
	disk, err := storage.New(storage.Config{})
	check(t, err)
	listed, err := disk.List(t.Context(), "", []string{dir})
	check(t, err)
	var files []format.File
	for _, f := range listed {
		one, err := formats.NewCache(1<<20).Load(t.Context(), disk, "", f, nil, nil, nil)
		check(t, err)
		files = append(files, one)
	}
	got := features.Columns(files)
	if got.GetFiles() != 3 || got.GetExtents() != 3 || got.GetRows() != 3 {
		t.Errorf("they are of %v", got)
	}
	_, err = proto.Marshal(got)
	check(t, err)
	names := ""
	for _, c := range got.GetColumns() {
		names += c.GetName() + " "
		if c.GetBytes() <= 0 {
			t.Errorf("%s has no bytes", c.GetName())
		}
	}
	stored := int64(0) // of the map of maps
	for i, c := range files[2].Columns().Schema.Columns {
		if c.Name == "n.key" || c.Name == "n.value.key" || c.Name == "n.value.value" {
			stored += files[2].Stored(i)
		}
	}
	if last := got.GetColumns()[len(got.GetColumns())-1]; last.GetBytes() != stored {
		t.Errorf("the map of maps has %d bytes, not %d", last.GetBytes(), stored)
	}
	if names != "b z\ufffdhler m a.key n " || got.GetColumns()[0].GetBytes() <= got.GetColumns()[3].GetBytes() {
		t.Errorf("columns %v", got.GetColumns())
	}
}
