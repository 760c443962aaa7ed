package parquet

import (
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"

	"github.com/penstock-ml/penstock/api/pb"
)

// beyondSmall are numbers that small integers do not have, and some that they have.
var beyondSmall = []int32{0, 1, 300, -1, -129, 127, 128, 65535, 70000, 255, 256, -32769, 1<<31 - 1, -1 << 31}

// cutTo is what pyarrow 26, DuckDB 2.0 and polars 2.1 read of such a number: its lowest bits.
func cutTo(kind pb.Kind, v int32) any {
	switch kind {
	case pb.Kind_INT8:
		return int32(int8(v))
	case pb.Kind_UINT8:
		return int32(uint8(v))
	case pb.Kind_INT16:
		return int32(int16(v))
	}
	return int32(uint16(v))
}

func oneColumn(t arrow.DataType, fill func(b array.Builder)) arrow.Table {
	b := array.NewBuilder(memory.DefaultAllocator, t)
	defer b.Release()
	fill(b)
	f := arrow.Field{Name: "i", Type: t}
	column := *arrow.NewColumn(f, arrow.NewChunked(t, []arrow.Array{b.NewArray()}))
	return array.NewTable(arrow.NewSchema([]arrow.Field{f}, nil), []arrow.Column{column}, int64(column.Len()))
}

// TestSmallIntegersAreCut reads integers that are none of the small type that the file says they have: whoever reads
// them, as that type, as ops do or wider, gets the same.
func TestSmallIntegersAreCut(t *testing.T) {
	rows := make([]int32, 0, 200)
	for len(rows) < 200 {
		rows = append(rows, beyondSmall...)
	}
	numbers := oneColumn(arrow.PrimitiveTypes.Int32, func(b array.Builder) {
		b.(*array.Int32Builder).AppendValues(rows, nil)
	})
	for name, options := range map[string][]parquet.WriterProperty{
		"plain": {parquet.WithDictionaryDefault(false)},
		"delta": {parquet.WithDictionaryDefault(false), parquet.WithEncoding(parquet.Encodings.DeltaBinaryPacked)},
		"codes": {parquet.WithDictionaryDefault(true)},
	} {
		data := writeTable(t, numbers, 150, options...)
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []pb.Kind{pb.Kind_INT8, pb.Kind_UINT8, pb.Kind_INT16, pb.Kind_UINT16} {
			f.Schema.Columns[0].Own, f.Leaves[0].Logical.Small = kind, kind
			want := make([]any, len(rows))
			for i, v := range rows {
				want[i] = cutTo(kind, v)
			}
			sources := []*pb.Source{
				source("i", kind, false), source("i", pb.Kind_INT32, false), source("i", pb.Kind_INT64, false),
			}
			for _, window := range []int{1, 64, 1000} {
				got, err := decodeAll(NewDecoder(sources, testMemory), f, data, window, 0)
				if err != nil {
					t.Fatal(err)
				}
				for i := range sources {
					if a, b := fmt.Sprint(got[i]), fmt.Sprint(want); a != b {
						t.Errorf("%s, %v as %v:\n%s, want\n%s", name, kind, sources[i].GetType().GetKind(), a, b)
					}
				}
			}
		}
	}
}

// TestFileOfSmallIntegers reads such a file: one of int32 with the footer of one of uint8, of which the pages are as
// long.
func TestFileOfSmallIntegers(t *testing.T) {
	plain := []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithStats(false)}
	data := writeTable(t, oneColumn(arrow.PrimitiveTypes.Int32, func(b array.Builder) {
		b.(*array.Int32Builder).AppendValues(beyondSmall, nil)
	}), 100, plain...)
	of := writeTable(t, oneColumn(arrow.PrimitiveTypes.Uint8, func(b array.Builder) {
		b.(*array.Uint8Builder).AppendValues(make([]byte, len(beyondSmall)), nil)
	}), 100, plain...)
	f, err := readFooter(of)
	if err != nil {
		t.Fatal(err)
	}
	sources := withOwn(f)
	if len(sources) != 2 {
		t.Fatal(sources)
	}
	got, err := decodeAll(NewDecoder(sources, testMemory), f, data, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range beyondSmall {
		if want := fmt.Sprint(uint8(v)); fmt.Sprint(got[0][i]) != want || fmt.Sprint(got[1][i]) != want {
			t.Errorf("%d is %v and %v, want %s", v, got[0][i], got[1][i], want)
		}
	}
}
