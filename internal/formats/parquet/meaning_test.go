package parquet_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// TestMeaning reads what integers stand for, by which files that look alike are told apart.
func TestMeaning(t *testing.T) {
	want := map[string]string{
		"i64": "", "u64": "uint64", "u32": "", "date": "", "ms": "timestamp[ms]", "us": "timestamp[us]",
		"ns":   "timestamp[ns]",
		"time": "time[ms]", "list": "timestamp[us]",
	}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i64", Type: arrow.PrimitiveTypes.Int64},
		{Name: "u64", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "u32", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "date", Type: arrow.FixedWidthTypes.Date32},
		{Name: "ms", Type: arrow.FixedWidthTypes.Timestamp_ms},
		{Name: "us", Type: arrow.FixedWidthTypes.Timestamp_us},
		{Name: "ns", Type: arrow.FixedWidthTypes.Timestamp_ns},
		{Name: "time", Type: arrow.FixedWidthTypes.Time32ms},
		{Name: "list", Type: arrow.ListOf(arrow.FixedWidthTypes.Timestamp_us)},
	}, nil)
	empty := array.NewRecordBuilder(memory.DefaultAllocator, schema).NewRecord()
	var file bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &file, parquet.NewWriterProperties(parquet.WithVersion(parquet.V2_LATEST)),
		pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(empty); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := file.Bytes()
	length := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
	f, err := footer.Read(b[len(b)-8-length : len(b)-8])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Schema.Columns {
		if c.Meaning != want[c.Name] {
			t.Errorf("%s means %q, want %q", c.Name, c.Meaning, want[c.Name])
		}
		if c.Date != (c.Name == "date") {
			t.Errorf("%s is a date: %v", c.Name, c.Date)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("no columns %v", want)
	}
}
