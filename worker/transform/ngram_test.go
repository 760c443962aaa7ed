package transform

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// naiveGrams is the definition, for one row: ids joined, nulls left out, each n of them hashed.
func naiveGrams(ids []int64, n int, salt uint64, limit int64) []any {
	grams := []any{}
	for i := 0; i+n <= len(ids); i++ {
		sum := uint64(0)
		for j, id := range ids[i : i+n] {
			term := mixID(uint64(id))
			for range n - 1 - j {
				term *= golden
			}
			sum += term
		}
		h := int64(combine(salt, sum))
		if limit > 0 {
			if h %= limit; h < 0 {
				h += limit
			}
		}
		grams = append(grams, h)
	}
	return grams
}

// idsOf lists the ids of one feature's row.
func idsOf(row any) (ids []int64) {
	switch x := row.(type) {
	case int32:
		return []int64{int64(x)}
	case int64:
		return []int64{x}
	case []any:
		for _, e := range x {
			ids = append(ids, idsOf(e)...)
		}
	}
	return ids
}

// Values computed by another program, from docs/reference/ops.md: they hold for as long as the op's version is 1.
func TestNgramGolden(t *testing.T) {
	i64 := func(all ...int64) []any {
		rows := []any{}
		for _, n := range all {
			rows = append(rows, n)
		}
		return rows
	}
	cases := []struct {
		name   string
		params values
		a, b   []any
		want   []any
	}{
		{
			"n = 1 is sigrid_hash",
			values{"n": 1, "max": 100},
			[]any{i64(0, 1, 2), nil, i64()},
			[]any{i64(3), i64(16), nil},
			[]any{i64(6, 60, 54, 54), i64(2), i64()},
		},
		{
			"pairs across features",
			values{"n": 2, "max": 1000},
			[]any{i64(1, 2), i64(1), i64(), nil},
			[]any{i64(3), i64(2, 3), i64(1), nil},
			[]any{i64(710, 322), i64(710, 322), i64(), i64()},
		},
		{
			"nulls are left out",
			values{"n": 2, "max": 1000},
			[]any{[]any{int64(1), nil, int64(2)}},
			[]any{[]any{nil, int64(3)}},
			[]any{i64(710, 322)},
		},
		{
			"any int64, salted",
			values{"n": 3, "salt": 5},
			[]any{i64(1, 2)},
			[]any{i64(3)},
			[]any{i64(-8047518880959891080)},
		},
		{"n above all lengths", values{"n": 1 << 40}, []any{i64(1, 2)}, []any{i64(3)}, []any{i64()}},
	}
	typ := list(pb.Kind_INT64)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			chain := chainOf(t, ngram(), c.params, typ, typ)
			for range 2 {
				out := run(t, chain, vectorOf(typ, c.a), vectorOf(typ, c.b))
				if got := rowsOf(out); !same(got, c.want) {
					t.Fatalf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

// TestNgramKeepsOneRow runs a window of many short rows: what is kept of ids is that of the longest.
func TestNgramKeepsOneRow(t *testing.T) {
	typ := list(pb.Kind_INT64)
	rows := slices.Repeat([]any{i64s(1, 2), i64s(1, 2, 3)}, 1000)
	k := &grams{n: 2, last: power(golden, 2)}
	in2out(t, k, vectorOf(typ, rows), typ)
	if n := cap(k.mixed); n > 2*3 {
		t.Errorf("memory for %d ids is kept, the longest row has 3", n)
	}
}

func TestNgramProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		salt := rapid.Int64().Draw(t, "salt")
		params := values{"n": n, "salt": salt}
		limit := rapid.Int64Range(0, 1000).Draw(t, "max")
		if limit > 0 {
			params["max"] = limit
		}
		types := make([]spec.Type, rapid.IntRange(1, 3).Draw(t, "features"))
		for i := range types {
			types[i] = spec.Type{
				Kind: rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64}).Draw(t, "kind"),
				List: rapid.Bool().Draw(t, "list"),
			}
		}
		chain := chainOf(t, ngram(), params, types...)
		for range 2 {
			checkGrams(t, chain, types, func(ids []int64) []any { return naiveGrams(ids, n, uint64(salt), limit) })
		}
	})
}

// checkGrams runs one window of drawn features, cut to the rows of the shortest.
func checkGrams(t *rapid.T, chain *Chain, types []spec.Type, naive func([]int64) []any) {
	features := make([][]any, len(types))
	lengths := make([]int, len(types))
	for i, typ := range types {
		features[i] = drawRows(t, typ, "in")
		lengths[i] = len(features[i])
	}
	in := make([]*vector.Vector, len(types))
	want := make([]any, slices.Min(lengths))
	for i, typ := range types {
		in[i] = vectorOf(typ, features[i][:len(want)])
	}
	for row := range want {
		var ids []int64
		for _, f := range features {
			ids = append(ids, idsOf(f[row])...)
		}
		want[row] = naive(ids)
	}
	if got := rowsOf(run(t, chain, in...)); !same(got, want) {
		t.Fatalf("ngram of %v\ngot  %v\nwant %v", features, got, want)
	}
}
