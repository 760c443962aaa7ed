package spec

import (
	"math"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestRowsOf(t *testing.T) {
	op := &pb.Step{Op: "log1p", Outs: 1}
	sample := &pb.Step{Op: "sample"}
	function := func(kind pb.FunctionKind, outs uint32) *pb.Step {
		return &pb.Step{Op: "python", Outs: outs, Python: &pb.Function{Kind: kind}}
	}
	steps := func(steps ...*pb.Step) *pb.Program { return &pb.Program{Steps: steps} }
	for _, c := range []struct {
		name    string
		program *pb.Program
		want    Rows
	}{
		{"nothing", nil, SameRows},
		{"ops and functions that map", steps(op, function(0, 2), function(pb.FunctionKind_MAP, 1)), SameRows},
		{"a filter", &pb.Program{Filter: "x > 1", Steps: []*pb.Step{op}}, FewerRows},
		{"an op that selects rows", steps(op, sample, op), FewerRows},
		{"a function that selects rows", steps(function(pb.FunctionKind_FILTER, 0), op), FewerRows},
		{"a function that makes rows", steps(function(pb.FunctionKind_FLAT_MAP, 1), op), MoreRows},
		{"of which some are left out", steps(function(pb.FunctionKind_FLAT_MAP, 1), sample), MoreRows},
	} {
		if got := RowsOf(c.program); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestMostRows(t *testing.T) {
	made := func(most uint32) *pb.Step {
		return &pb.Step{Op: "python", Outs: 1, Python: &pb.Function{Kind: pb.FunctionKind_FLAT_MAP, Most: most}}
	}
	filter := &pb.Step{Op: "python", Python: &pb.Function{Kind: pb.FunctionKind_FILTER}}
	for _, c := range []struct {
		steps      []*pb.Step
		rows, want uint32
	}{
		{nil, 7, 7},
		{[]*pb.Step{filter}, 7, 7},
		{[]*pb.Step{made(3), filter, made(5)}, 7, 105},
		{[]*pb.Step{made(3)}, 0, 0},
		{[]*pb.Step{made(1 << 16)}, 1 << 16, math.MaxInt32},
		{[]*pb.Step{made(1 << 16), made(1 << 16), made(1 << 16), made(1 << 16)}, 1 << 16, math.MaxInt32},
	} {
		if got := MostRows(&pb.Program{Steps: c.steps}, c.rows); got != c.want {
			t.Errorf("%d rows become %d at most, want %d: %v", c.rows, got, c.want, c.steps)
		}
	}
}

func TestDrawsRows(t *testing.T) {
	const filter, flatMap, maps = pb.FunctionKind_FILTER, pb.FunctionKind_FLAT_MAP, pb.FunctionKind_MAP
	function := func(kind pb.FunctionKind, rng bool, in ...uint32) *pb.Step {
		s := &pb.Step{Op: "python", In: in, Outs: 1, Python: &pb.Function{Kind: kind, Rng: rng}}
		if kind == filter {
			s.Outs = 0
		}
		return s
	}
	op := func(in uint32, params ...string) *pb.Step {
		s := &pb.Step{Op: "op", In: []uint32{in}, Outs: 1, Params: map[string]*pb.Value{}}
		for _, name := range params {
			s.Params[name] = &pb.Value{Kind: &pb.Value_Int{Int: 0}}
		}
		return s
	}
	for _, c := range []struct {
		name  string
		steps []*pb.Step // of slots 0 and 1
		want  bool
	}{
		{"nothing", nil, false},
		{"a sample", []*pb.Step{{Op: "sample"}}, true},
		{"a filter", []*pb.Step{op(0, "salt"), function(filter, false, 2)}, false},
		{"a filter that draws", []*pb.Step{function(filter, true, 0)}, true},
		{"a flat_map that draws", []*pb.Step{function(flatMap, true, 0)}, true},
		{"a map that draws", []*pb.Step{function(maps, true, 0), function(filter, false, 1)}, false},
		{"a map that draws, before a filter", []*pb.Step{function(maps, true, 0), op(2), function(filter, false, 3)}, true},
		{"a map that draws, behind a filter", []*pb.Step{function(filter, false, 0), function(maps, true, 0)}, false},
		{"an op that draws", []*pb.Step{op(0, "seed"), function(flatMap, false, 0)}, false},
		{"an op that draws, before a filter", []*pb.Step{op(0, "seed"), function(filter, false, 2)}, true},
	} {
		p := &pb.Program{Sources: make([]*pb.Source, 2), Filter: "x > 1", Steps: c.steps}
		if got := DrawsRows(p); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
