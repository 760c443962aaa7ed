package transform

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestFirstXGolden(t *testing.T) {
	long := []any{int64(1), nil, int64(3), int64(4)}
	runGolden(t, firstX(), []golden1{
		{
			"cut", list(pb.Kind_INT64),
			values{"x": 2},
			[]any{long, nil, []any{}, []any{int64(5)}, long},
			[]any{[]any{int64(1), nil}, nil, []any{}, []any{int64(5)}, []any{int64(1), nil}},
		},
		{"nothing to cut", list(pb.Kind_INT64), values{"x": 4}, []any{long, nil, []any{}}, []any{long, nil, []any{}}},
		{"more than an int32 holds", list(pb.Kind_INT64), values{"x": 1 << 40}, []any{long}, []any{long}},
		{
			"text", list(pb.Kind_BINARY),
			values{"x": 1},
			[]any{[]any{[]byte("ab"), []byte("c")}, []any{nil, []byte("d")}, []any{[]byte("")}},
			[]any{[]any{[]byte("ab")}, []any{nil}, []any{[]byte("")}},
		},
	})
}

func TestLastXGolden(t *testing.T) {
	long := []any{int64(1), nil, int64(3), int64(4)}
	runGolden(t, lastX(), []golden1{
		{
			"cut", list(pb.Kind_INT64),
			values{"x": 3},
			[]any{long, nil, []any{}, []any{int64(5)}, long},
			[]any{long[1:], nil, []any{}, []any{int64(5)}, long[1:]},
		},
		{"nothing to cut", list(pb.Kind_INT64), values{"x": 4}, []any{long, nil, []any{}}, []any{long, nil, []any{}}},
		{"more than an int32 holds", list(pb.Kind_INT64), values{"x": 1 << 40}, []any{long}, []any{long}},
		{
			"text", list(pb.Kind_BINARY),
			values{"x": 1},
			[]any{[]any{[]byte("ab"), []byte("c")}, []any{[]byte("d"), nil}, []any{[]byte("")}},
			[]any{[]any{[]byte("c")}, []any{nil}, []any{[]byte("")}},
		},
	})
}

func TestCutListsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := list(drawKind(t))
		x := rapid.IntRange(1, 6).Draw(t, "x")
		op, keep := firstX(), func(l []any) []any { return l[:min(x, len(l))] }
		if rapid.Bool().Draw(t, "last") {
			op, keep = lastX(), func(l []any) []any { return l[max(len(l)-x, 0):] }
		}
		chain := chainOf(t, op, values{"x": x}, typ)
		for range 2 {
			rows := drawRows(t, typ, "in")
			want := make([]any, len(rows))
			for i, row := range rows {
				if l, ok := row.([]any); ok {
					want[i] = append([]any{}, keep(l)...)
				}
			}
			in := vectorOf(typ, rows)
			if got := rowsOf(run(t, chain, in)); !same(got, want) {
				t.Fatalf("%s %d of %v\ngot  %v\nwant %v", op.Name, x, rows, got, want)
			}
			if back := rowsOf(in); !same(back, rows) {
				t.Fatalf("the input changed from %v to %v", rows, back)
			}
		}
	})
}
