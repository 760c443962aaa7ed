package convert

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"
)

// Values that are gathered are those that arrow concatenates of slices, whatever they hold.
func TestGather(t *testing.T) {
	large, number := arrow.BinaryTypes.LargeString, arrow.PrimitiveTypes.Int64
	pair := arrow.StructOf(nullable("a", large), nullable("b", arrow.FixedWidthTypes.Boolean))
	fields := append(sortedTypes(), nullable("large", large), nullable("lists", arrow.ListOf(arrow.ListOf(large))),
		nullable("pairs", arrow.FixedSizeListOf(3, pair)), nullable("deep", arrow.MapOf(large, arrow.MapOf(number, pair))),
		nullable("nulls", arrow.ListOf(arrow.Null)), nullable("in", arrow.StructOf(nullable("s", pair))),
		nullable("triples", arrow.ListOf(arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16))))
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(fields).Draw(t, "type").Type
		mem := memory.NewGoAllocator()
		from := make([]arrow.Array, rapid.IntRange(1, 3).Draw(t, "arrays"))
		for i := range from {
			b := array.NewBuilder(mem, typ)
			n := rapid.IntRange(0, 12).Draw(t, "rows")
			for range n {
				appendAny(t, b, true)
			}
			lo := rapid.IntRange(0, n).Draw(t, "from")
			from[i] = array.NewSlice(b.NewArray(), int64(lo), int64(rapid.IntRange(lo, n).Draw(t, "to")))
		}
		var order spans
		var want []arrow.Array
		for range rapid.IntRange(0, 6).Draw(t, "spans") {
			if of := rapid.IntRange(none, len(from)-1).Draw(t, "of"); of == none {
				n := rapid.IntRange(0, 9).Draw(t, "nulls")
				order.nulls(n)
				want = append(want, array.MakeArrayOfNull(mem, typ, n))
			} else {
				lo := rapid.IntRange(0, from[of].Len()).Draw(t, "lo")
				hi := rapid.IntRange(lo, from[of].Len()).Draw(t, "hi")
				order.take(of, lo, hi)
				want = append(want, array.NewSlice(from[of], int64(lo), int64(hi)))
			}
		}
		data, err := gather(typ, from, order)
		if err != nil {
			t.Fatal(err)
		}
		got := array.MakeFromData(data)
		all := array.MakeArrayOfNull(mem, typ, 0)
		if len(want) > 0 {
			if all, err = array.Concatenate(want, mem); err != nil {
				t.Fatal(err)
			}
		}
		if got.Len() != all.Len() || typ.ID() != arrow.NULL && got.NullN() != all.NullN() {
			t.Fatalf("%v: %d values, of which %d are none; want %d and %d", typ, got.Len(), got.NullN(), all.Len(), all.NullN())
		}
		for i := range got.Len() {
			if !equal(got, i, all, i) || got.ValueStr(i) != all.ValueStr(i) {
				t.Fatalf("%v: value %d of %v is %s, want %s", typ, i, order, got.ValueStr(i), all.ValueStr(i))
			}
		}
	})
}

// What the sources never give is refused, not made into something else.
func TestNotGathered(t *testing.T) {
	for _, typ := range []arrow.DataType{
		arrow.LargeListOf(arrow.PrimitiveTypes.Int64), arrow.ListViewOf(arrow.PrimitiveTypes.Int64),
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
	} {
		if _, err := gather(typ, nil, spans{{none, 0, 1}}); err == nil || !strings.Contains(err.Error(), "cannot be sorted") {
			t.Errorf("%v: %v", typ, err)
		}
	}
}
