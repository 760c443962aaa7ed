package transform

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/vector"
)

// barrierProgram hashes ids, calls a function that chooses or makes rows, and cuts the hashes.
func barrierProgram(kind pb.FunctionKind) *pb.Program {
	ids := list(pb.Kind_INT64)
	s := &pb.Step{
		Op: python, Version: 1, In: []uint32{0}, At: "transforms[1]", Python: &pb.Function{Name: "f", Kind: kind, Most: 3},
	}
	if kind == pb.FunctionKind_FLAT_MAP {
		s.Outs, s.Type, s.Name = 1, scalar(pb.Kind_INT32).Proto(), "part"
	}
	return &pb.Program{
		Sources: []*pb.Source{{Name: "ids", Type: ids.Proto()}},
		Steps: []*pb.Step{
			{
				Op: "first_x", Version: 1, Params: values{"x": 2}.proto(), In: []uint32{0}, Outs: 1, Name: "two",
				At: "transforms[0]", Type: ids.Proto(),
			},
			s,
			{
				Op: "first_x", Version: 1, Params: values{"x": 1}.proto(), In: []uint32{1}, Outs: 1, Name: "one",
				At: "transforms[2]", Type: ids.Proto(),
			},
		},
	}
}

// Rows behind a barrier are of those that the function says; what it may not say is an error.
func TestBarriers(t *testing.T) {
	const filter, flatMap = pb.FunctionKind_FILTER, pb.FunctionKind_FLAT_MAP
	one := func(n int64) any { return []any{n} }
	for _, c := range []struct {
		kind    pb.FunctionKind
		parents []int32
		want    []any // the first id of each row
		chosen  []int32
		err     string
	}{
		{filter, []int32{0, 2}, []any{one(1), one(5)}, []int32{4, 8}, ""},
		{filter, []int32{1}, []any{nil}, []int32{6}, ""},
		{filter, []int32{0, 1, 2}, []any{one(1), nil, one(5)}, []int32{4, 6, 8}, ""},
		{filter, nil, []any{one(1), nil, one(5)}, []int32{4, 6, 8}, ""},
		{filter, []int32{}, nil, []int32{}, ""},
		{filter, []int32{1, 1}, nil, nil, "the function chose row 1 twice"},
		{filter, []int32{0, 1, 1, 2}, nil, nil, "the function chose row 1 twice"},
		{filter, []int32{2, 1}, nil, nil, "the function made row 1 of row 1, behind one of row 2"},
		{filter, []int32{-1}, nil, nil, "the function made row 0 of row -1, of which there are 3"},
		{filter, []int32{3}, nil, nil, "the function made row 0 of row 3, of which there are 3"},
		{flatMap, []int32{0, 0, 2, 2}, []any{one(1), one(1), one(5), one(5)}, []int32{4, 4, 8, 8}, ""},
		{flatMap, []int32{2, 2, 2}, []any{one(5), one(5), one(5)}, []int32{8, 8, 8}, ""},
		{flatMap, nil, []any{one(1), nil, one(5)}, []int32{4, 6, 8}, ""},
		{flatMap, []int32{}, nil, []int32{}, ""},
		{flatMap, []int32{0, 2, 1}, nil, nil, "behind one of row 2"},
		{flatMap, []int32{0, 2, 2, 2, 2, 2, 2, 2, 2, 2}, nil, nil, "row 18 became 9 rows, and all 3 together 10; at most 3"},
	} {
		chain, err := Compile(Builtin(), barrierProgram(c.kind), functions(func(_ context.Context, call *Call) error {
			call.Parents = c.parents
			for _, v := range call.Out {
				v.Rows = len(c.parents)
				if c.parents == nil {
					v.Rows = call.N
				}
				v.I32 = make([]int32, v.Rows)
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			chain.Place(Rows{First: 10, N: 20, Chosen: []int32{4, 6, 8}}, images.Room{})
			ids := vectorOf(list(pb.Kind_INT64), []any{[]any{int64(1), int64(2), int64(3)}, nil, []any{int64(5)}})
			slots, err := chain.Run(t.Context(), []*vector.Vector{ids})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) ||
					!strings.HasPrefix(err.Error(), "transforms[1] (python f): ") {
					t.Errorf("%v: got %v, want %s", c.parents, err, c.err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%v: %v", c.parents, err)
			}
			rows, chosen := chain.Passed()
			if rows != len(c.want) || !slices.Equal(chosen, c.chosen) {
				t.Errorf("%v: %d rows, of %v, want %v", c.parents, rows, chosen, c.chosen)
			}
			if rows > 0 && !same(rowsOf(slots[len(slots)-1]), c.want) {
				t.Errorf("%v: got %v, want %v", c.parents, rowsOf(slots[len(slots)-1]), c.want)
			}
		}
	}
}

// A selection of the file's rows stands before all functions that choose or make rows.
func TestSelectorsStandBeforeBarriers(t *testing.T) {
	p := barrierProgram(pb.FunctionKind_FILTER)
	p.Steps = append(p.Steps, &pb.Step{Op: "sample", Version: 1, Params: values{"rate": 0.5}.proto(), At: "transforms[3]"})
	_, err := Compile(Builtin(), p, functions(nil))
	if err == nil || !strings.Contains(err.Error(), "transforms[3]: sample chooses rows of files, and stands behind") {
		t.Errorf("got %v", err)
	}
	last := len(p.Steps) - 1
	p.Steps[0], p.Steps[last] = p.Steps[last], p.Steps[0]
	p.Steps = p.Steps[:last]
	p.Steps = slices.DeleteFunc(p.Steps, func(s *pb.Step) bool { return s.Name == "one" })
	if _, err := Compile(Builtin(), p, functions(nil)); err != nil {
		t.Error(err)
	}
}
