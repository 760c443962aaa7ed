package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// A dictionary's values are there a record at a time: all rows of a batch may have a long text that the file has once.
func TestDictionariesOfArrow(t *testing.T) {
	const rows, length = 30_000, 100_000 // over 2 GiB in all, of which some records are read
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	b := array.NewDictionaryBuilder(memory.DefaultAllocator, typ).(*array.BinaryDictionaryBuilder)
	texts := []string{strings.Repeat("x", length), "short"}
	for i := range rows {
		if i%7 == 3 {
			b.AppendNull()
		} else if err := b.AppendString(texts[i%5/4]); err != nil {
			t.Fatal(err)
		}
	}
	schema := arrow.NewSchema([]arrow.Field{nullable("x", typ)}, nil)
	name := filepath.Join(t.TempDir(), "a.arrow")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	if err == nil {
		err = w.Write(array.NewRecord(schema, []arrow.Array{b.NewArray()}, rows))
	}
	if err := errors.Join(err, w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	o := Options{Store: newStore(t), Inputs: []string{name}, Output: filepath.Join(t.TempDir(), "a.parquet")}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	in, err := find(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	src, err := openSource(t.Context(), o, &in)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	row := 0
	for row < 500 {
		rec, err := src.next(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		if n := sizeOf(rec); n > recordBytes+length {
			t.Fatalf("a record of %d bytes", n)
		}
		for i := range int(rec.NumRows()) {
			x := rec.Column(0).(*array.String)
			if x.IsNull(i) != (row%7 == 3) || x.IsValid(i) && x.Value(i) != texts[row%5/4] {
				t.Fatalf("row %d is %.20q", row, x.Value(i))
			}
			row++
		}
	}
}
