package transform

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

func TestFillNullGolden(t *testing.T) {
	text := func(s string) any { return []byte(s) }
	runGolden(t, fillNull(), []golden1{
		{
			"int64", scalar(pb.Kind_INT64),
			values{"value": 7},
			[]any{int64(1), nil, int64(3)},
			[]any{int64(1), int64(7), int64(3)},
		},
		{
			"int32 by a float without fraction", scalar(pb.Kind_INT32),
			values{"value": 7.0},
			[]any{nil, nil},
			[]any{int32(7), int32(7)},
		},
		{
			"float32 by an int", scalar(pb.Kind_FLOAT32),
			values{"value": -1},
			[]any{nil, float32(2)},
			[]any{float32(-1), float32(2)},
		},
		{
			"float32 by infinity", scalar(pb.Kind_FLOAT32),
			values{"value": math.Inf(1)},
			[]any{nil},
			[]any{float32(math.Inf(1))},
		},
		{"float64 beyond float32", scalar(pb.Kind_FLOAT64), values{"value": 1e39}, []any{nil}, []any{1e39}},
		{"float64", scalar(pb.Kind_FLOAT64), values{"value": 0.1}, []any{nil, 2.0}, []any{0.1, 2.0}},
		{"bool", scalar(pb.Kind_BOOL), values{"value": false}, []any{nil, true}, []any{false, true}},
		{
			"text", scalar(pb.Kind_BINARY),
			values{"value": "none"},
			[]any{text("a"), nil, text("")},
			[]any{text("a"), text("none"), text("")},
		},
		{
			"lists: elements only", list(pb.Kind_INT64),
			values{"value": 0},
			[]any{nil, []any{}, []any{nil, int64(5), nil}},
			[]any{nil, []any{}, []any{int64(0), int64(5), int64(0)}},
		},
		{
			"lists of text", list(pb.Kind_BINARY),
			values{"value": ""},
			[]any{[]any{nil, text("x")}, nil, []any{text("yy"), nil}},
			[]any{[]any{text(""), text("x")}, nil, []any{text("yy"), text("")}},
		},
		{"no nulls", list(pb.Kind_INT32), values{"value": 0}, []any{[]any{int32(1)}}, []any{[]any{int32(1)}}},
		{"no rows", scalar(pb.Kind_INT32), values{"value": 0}, []any{}, []any{}},
	})
}

func TestFillNullProperty(t *testing.T) {
	fillers := map[pb.Kind]any{
		pb.Kind_BOOL: true, pb.Kind_INT32: int32(-9), pb.Kind_INT64: int64(math.MaxInt64),
		pb.Kind_FLOAT32: float32(0.1), pb.Kind_FLOAT64: math.Inf(-1), pb.Kind_BINARY: []byte("filler"),
	}
	params := map[pb.Kind]any{
		pb.Kind_BOOL: true, pb.Kind_INT32: -9, pb.Kind_INT64: math.MaxInt64,
		pb.Kind_FLOAT32: 0.1, pb.Kind_FLOAT64: math.Inf(-1), pb.Kind_BINARY: "filler",
	}
	rapid.Check(t, func(t *rapid.T) {
		typ := spec.Type{Kind: drawKind(t), List: rapid.Bool().Draw(t, "list")}
		chain := chainOf(t, fillNull(), values{"value": params[typ.Kind]}, typ)
		for range 2 {
			rows := drawRows(t, typ, "in")
			want := make([]any, len(rows))
			for i, x := range rows {
				l, isList := x.([]any)
				switch {
				case isList:
					filled := append([]any{}, l...)
					for j := range filled {
						if filled[j] == nil {
							filled[j] = fillers[typ.Kind]
						}
					}
					want[i] = filled
				case x == nil && !typ.List:
					want[i] = fillers[typ.Kind]
				default:
					want[i] = x
				}
			}
			if got := rowsOf(run(t, chain, vectorOf(typ, rows))); !same(got, want) {
				t.Fatalf("fill_null of %v\ngot  %v\nwant %v", rows, got, want)
			}
		}
	})
}

func drawKind(t *rapid.T) pb.Kind {
	return pb.Kind(rapid.Int32Range(int32(pb.Kind_BOOL), int32(pb.Kind_BINARY)).Draw(t, "kind"))
}

// TestHasNulls tries every place of a null, with unspecified bits behind the end.
func TestHasNulls(t *testing.T) {
	for n := range 130 {
		valid := copyValid(nil, nil, 130)
		for i := n; i < 130; i++ {
			clearBit(valid, i)
		}
		if hasNulls(valid, n) {
			t.Fatalf("found a null behind the end of %d bits", n)
		}
		if !hasNulls(valid, n+1) {
			t.Fatalf("did not find a null at %d", n)
		}
	}
}
