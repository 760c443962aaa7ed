package parquet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"

	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestLongWindowOfOnes decodes a window with more lists of one element than Counting keeps: their offsets are the
// column's own, and counted, as memory is.
func TestLongWindowOfOnes(t *testing.T) {
	const rows = vector.MaxCounted + 100
	b := array.NewBuilder(memory.DefaultAllocator, arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64))
	r, one := rand.New(rand.NewPCG(7, 8)), lists(-1)
	for row := range rows {
		one(b, r, row)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: b.Type()}}, nil)
	table := array.NewTableFromRecords(schema,
		[]arrow.Record{array.NewRecord(schema, []arrow.Array{b.NewArray()}, rows)})
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
	if least := int64((8 + 4) * rows); d.memory.Held() < least {
		t.Errorf("%d bytes are held, want %d or more: values and offsets", d.memory.Held(), least)
	}
}

// listsFile is a file of one row group, of lists of integers in short pages of version 2.
func listsFile(t testing.TB, rows, longest int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(3, uint64(longest)))
	schema := arrow.NewSchema([]arrow.Field{{
		Name: "x", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64),
		Nullable: true,
	}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	lists := b.Field(0).(*array.ListBuilder)
	for range rows {
		n := r.IntN(longest + 1)
		if longest == 1 {
			n = 1
		}
		lists.Append(true)
		for range n {
			lists.ValueBuilder().(*array.Int64Builder).Append(int64(r.Uint64()))
		}
	}
	table := array.NewTableFromRecords(schema, []arrow.Record{b.NewRecord()})
	return writeTable(t, table, int64(rows), parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithDataPageSize(600),
		parquet.WithBatchSize(64), parquet.WithDictionaryDefault(false), parquet.WithStats(false))
}

// TestFalseNumbersOfRows: pages of version 2 that claim as many rows as they have values, as Arrow C++ before 12 wrote
// them (GH-34086), or others than they have are passed over by the rows that they have.
func TestFalseNumbersOfRows(t *testing.T) {
	for name, claim := range map[string]func(h *header) int{
		"values": func(h *header) int { return h.values },
		"fewer":  func(h *header) int { return h.rows / 2 },
		"more":   func(h *header) int { return min(h.rows+1, h.values) },
	} {
		t.Run(name, func(t *testing.T) { checkFalseNumbers(t, claim) })
	}
}

func checkFalseNumbers(t *testing.T, claim func(h *header) int) {
	const rows = 600
	for _, longest := range []int{0, 1, 3, 90} { // of 90, pages begin in the middle of
		data := listsFile(t, rows, longest)
		want, err := skipAndRead(columnOf(t, data, 0, bytes.Clone), 0, rows)
		if err != nil {
			t.Fatal(err)
		}
		d := columnOf(t, data, 0, func(chunk []byte) []byte {
			return rewritten(t, chunk, func(h *header) { h.rows = claim(h) })
		})
		chunk := *d.columns[0].source.(*decode.Whole)
		for skip := 0; skip < rows; skip += 37 {
			for by, source := range map[string]decode.Source{"whole": &chunk, "pieces": &pieces{data: chunk}} {
				if err := d.resetSources("test.parquet", d.bound.Footer, 0, []decode.Source{source}); err != nil {
					t.Fatal(err)
				}
				got, err := skipAndRead(d, skip, 50)
				if err != nil {
					t.Fatalf("lists of up to %d, %s, behind %d rows: %v", longest, by, skip, err)
				}
				compare(t, fmt.Sprintf("lists of up to %d, %s, behind %d rows", longest, by, skip), got, want[skip:])
			}
		}
	}
}

// TestPagesOfOnesAreDropped: pages that have in truth as many rows as values are passed over whole, whatever they hold.
func TestPagesOfOnesAreDropped(t *testing.T) {
	const rows = 600
	data := listsFile(t, rows, 1)
	want, err := skipAndRead(columnOf(t, data, 0, bytes.Clone), 0, rows)
	if err != nil {
		t.Fatal(err)
	}
	dropped := 0
	d := columnOf(t, data, 0, func(chunk []byte) []byte {
		return rewritten(t, chunk, func(h *header) {
			if dropped+h.rows < rows/2 {
				dropped, h.encoding = dropped+h.rows, 99
			}
		})
	})
	got, err := skipAndRead(d, rows/2, 50)
	if err != nil || dropped == 0 {
		t.Fatalf("behind %d rows of pages that cannot be read: %v", dropped, err)
	}
	compare(t, "x", got, want[rows/2:])
}
