package parquet

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestWidened: of a table, whole numbers are read as floats, and dates as microseconds, if their column was widened to
// these. Bounds of values are those of what they become.
func TestWidened(t *testing.T) {
	floats := func(v int64) any { return math.Float64bits(float64(v)) }
	cases := []struct {
		of      arrow.DataType
		kind    pb.Kind
		meaning string
		becomes func(v int64) any
	}{
		{arrow.PrimitiveTypes.Int8, pb.Kind_INT16, "", func(v int64) any { return int32(v) }},
		{arrow.PrimitiveTypes.Int8, pb.Kind_FLOAT64, "", floats},
		{arrow.PrimitiveTypes.Int16, pb.Kind_FLOAT64, "", floats},
		{arrow.PrimitiveTypes.Int32, pb.Kind_FLOAT64, "", floats},
		{arrow.PrimitiveTypes.Int64, pb.Kind_FLOAT64, "", floats},
		{arrow.PrimitiveTypes.Date32, pb.Kind_INT64, "timestamp[us]", func(v int64) any {
			return min(max(v, -106751991), 106751991) * 24 * 60 * 60 * 1e6
		}},
	}
	encodings := [][]parquet.WriterProperty{
		nil,
		{parquet.WithDictionaryDefault(false)},
		{parquet.WithDictionaryDefault(false), parquet.WithEncoding(parquet.Encodings.DeltaBinaryPacked)},
	}
	rapid.Check(t, func(r *rapid.T) {
		c := rapid.SampledFrom(cases).Draw(r, "case")
		listed := rapid.Bool().Draw(r, "listed")
		bits := c.of.(arrow.FixedWidthDataType).BitWidth()
		rows := rapid.SliceOfN(rapid.Ptr(rapid.Int64Range(-1<<(bits-1), 1<<(bits-1)-1), true), 1, 40).Draw(r, "rows")
		rows = append([]*int64{new(int64)}, rows...) // Arrow's encoder of deltas fails where there is no value
		b := array.NewBuilder(memory.DefaultAllocator, c.of)
		if listed {
			b = array.NewBuilder(memory.DefaultAllocator, arrow.ListOf(c.of))
		}
		var want []any
		for _, v := range rows {
			to := b
			if list, ok := b.(*array.ListBuilder); ok {
				list.Append(true)
				to = list.ValueBuilder()
			}
			var one any
			if v == nil {
				to.AppendNull()
			} else {
				appendInteger(to, *v)
				one = c.becomes(*v)
			}
			if listed {
				one = []any{one}
			}
			want = append(want, one)
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: b.Type(), Nullable: true}}, nil)
		record := array.NewRecord(schema, []arrow.Array{b.NewArray()}, int64(len(rows)))
		data := writeTable(t, array.NewTableFromRecords(schema, []arrow.Record{record}), 1000,
			rapid.SampledFrom(encodings).Draw(r, "encoding")...)
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		s := &pb.Source{Name: "x", Path: []string{"x"}, Type: &pb.Type{Kind: c.kind, List: listed}, Meaning: c.meaning}
		if _, err := f.Bind([]*pb.Source{s}); err == nil {
			t.Fatalf("%v is read as %s, though it was not widened", c.of, c.kind)
		}
		s.Widened = true
		got, err := decodeAll(NewDecoder([]*pb.Source{s}, testMemory), f, data, 7, 0)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, "x", got[0], want)
		bound, err := f.Bind([]*pb.Source{s})
		if err != nil {
			t.Fatal(err)
		}
		stats, _ := bound.Stats(0, 0)
		for _, v := range want {
			switch v := v.(type) {
			case uint64:
				if of := math.Float64frombits(v); stats.Min.Float > of || stats.Max.Float < of || !stats.HasMinMax {
					t.Fatalf("%v is outside of %+v", of, stats)
				}
			case int64:
				if stats.Min.Int > v || stats.Max.Int < v || !stats.HasMinMax {
					t.Fatalf("%v is outside of %+v", v, stats)
				}
			}
		}
	})
}

func appendInteger(b array.Builder, v int64) {
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(v))
	case *array.Int16Builder:
		b.Append(int16(v))
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(v)
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
	}
}
