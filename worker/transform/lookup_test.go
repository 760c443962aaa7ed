package transform

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// looking is a chain that takes a column of a table with the keys 0, 1, and so on, in pieces of a few rows.
func looking(t failer, typ spec.Type, rows []any, piece int, in spec.Type, params values) (*Chain, spec.Type) {
	t.Helper()
	about := &pb.Table{Keys: 1, Columns: []*pb.Source{
		{Name: "id", Type: &pb.Type{Kind: pb.Kind_INT64}}, {Name: "column", Type: typ.Proto()},
	}}
	b := lookup.NewBuilder(about, func(int64) error { return nil })
	for from := 0; from < len(rows); from += piece {
		some := rows[from:min(len(rows), from+piece)]
		var keys []any
		for i := range some {
			keys = append(keys, int64(from+i))
		}
		columns := []*vector.Vector{vectorOf(scalar(pb.Kind_INT64), keys), vectorOf(typ, some)}
		if err := b.Add(int64(from), columns); err != nil {
			t.Fatalf("%v", err)
		}
	}
	table, err := b.Table()
	if err != nil {
		t.Fatalf("%v", err)
	}
	all := values{"type": typ.String()}
	for name, v := range params {
		all[name] = v
	}
	p := &pb.Program{Sources: []*pb.Source{{Name: "id", Type: in.Proto()}}, Tables: []*pb.Table{about}}
	of, at := in, uint32(0)
	for i, s := range []struct {
		op     string
		params map[string]*pb.Value
	}{{spec.LookupRowOp, nil}, {spec.LookupColumnOp, all.proto()}} {
		sig, err := Builtin().Check(s.op, s.params, []spec.Type{of})
		if err != nil {
			t.Fatalf("%v", err)
		}
		p.Steps = append(p.Steps, &pb.Step{
			Op: s.op, Version: sig.Version, Params: sig.Params, In: []uint32{uint32(i)}, Outs: 1,
			Type: sig.Out.Proto(), At: "transforms[0]", Table: &at,
		})
		of = sig.Out
	}
	p.Outputs = []*pb.Output{{Slots: []uint32{2}}}
	c, err := Compile(Builtin(), p, nil, table)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c, of
}

// TestLookupColumns takes columns of all kinds by scalars and lists of ids, window by window on one chain.
func TestLookupColumns(t *testing.T) {
	kinds := []pb.Kind{
		pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64, pb.Kind_BINARY,
	}
	defaults := map[pb.Kind]struct{ param, value any }{
		pb.Kind_BOOL: {true, true}, pb.Kind_INT32: {7, int32(7)}, pb.Kind_INT64: {7, int64(7)},
		pb.Kind_FLOAT32: {0.5, float32(0.5)}, pb.Kind_FLOAT64: {0.5, 0.5}, pb.Kind_BINARY: {"none", []byte("none")},
	}
	rapid.Check(t, func(t *rapid.T) {
		typ := spec.Type{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), List: rapid.Bool().Draw(t, "lists")}
		in := spec.Type{Kind: pb.Kind_INT64, List: !typ.List && rapid.Bool().Draw(t, "of lists")}
		rows := drawRows(t, typ, "column")
		var params values
		var otherwise any
		if rapid.Bool().Draw(t, "default") {
			params = values{"default": defaults[typ.Kind].param}
			if otherwise = defaults[typ.Kind].value; typ.List {
				otherwise = nil
			}
		}
		c, out := looking(t, typ, rows, rapid.IntRange(1, 80).Draw(t, "piece"), in, params)
		value := func(id any) any {
			switch at, ok := id.(int64); {
			case !ok:
				return nil
			case at >= 0 && at < int64(len(rows)):
				return rows[at]
			}
			return otherwise
		}
		for range 3 {
			ids := drawRows(t, in, "ids")
			id := func(x any) any {
				if n, ok := x.(int64); ok && rapid.IntRange(0, 5).Draw(t, "present") > 0 {
					return (n%73 + 73) % 73
				}
				return x
			}
			var want []any
			for i, x := range ids {
				if list, ok := x.([]any); ok {
					list = slices.Clone(list)
					found := []any{}
					for j := range list {
						list[j] = id(list[j])
						found = append(found, value(list[j]))
					}
					ids[i], want = list, append(want, found)
					continue
				}
				if ids[i] = id(x); in.List {
					want = append(want, nil)
				} else {
					want = append(want, value(ids[i]))
				}
			}
			got := run(t, c, vectorOf(in, ids))
			if got.Type != out || !same(rowsOf(got), want) {
				t.Fatalf("%v of %v by %v\ngot  %v\nwant %v", typ, rows, ids, rowsOf(got), want)
			}
		}
	})
}

// TestLookupAllocates: nothing, once memory has grown.
func TestLookupAllocates(t *testing.T) {
	for _, column := range exampleVectors() {
		for _, in := range []spec.Type{scalar(pb.Kind_INT64), list(pb.Kind_INT64)} {
			if in.List && column.Type.List {
				continue
			}
			c, _ := looking(t, column.Type, rowsOf(column), 64, in, nil)
			ids := make([]any, 200)
			for i := range ids {
				if ids[i] = int64(3 * i); in.List {
					ids[i] = []any{int64(i), int64(3 * i), nil}[:i%4]
				}
			}
			v := vectorOf(in, ids)
			if n := testing.AllocsPerRun(5, func() { run(t, c, v) }); n > 0 {
				t.Errorf("a column of %v by %v: %v allocations a run", column.Type, in, n)
			}
		}
	}
}
