package columns

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/worker/vector"
)

// TestLongWindowOfOnes decodes a window with more lists of one element than Counting keeps: their offsets are the column's own, and
// counted, as memory is.
func TestLongWindowOfOnes(t *testing.T) {
	const rows = vector.MaxCounted + 100
	b := array.NewBuilder(memory.DefaultAllocator, arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64))
	r, one := rand.New(rand.NewPCG(7, 8)), lists(-1)
	for row := range rows {
		one(b, r, row)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: b.Type()}}, nil)
	table := array.NewTableFromRecords(schema, []arrow.Record{array.NewRecord(schema, []arrow.Array{b.NewArray()}, rows)})
	data := writeTable(t, table, rows)
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(sourcesOf(f), testMemory)
	got, err := decodeAll(d, f, data, rows, 0)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "x", got[0], arrowRows(table.Column(0).Data(), d.sources[0].GetType().GetKind()))
	if least := int64((8 + 4) * rows); d.memory.held < least {
		t.Errorf("%d bytes are held, want %d or more: values and offsets", d.memory.held, least)
	}
}
