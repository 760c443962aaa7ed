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
		{"a table with deleted rows", &pb.Program{Excludes: true, Steps: []*pb.Step{op}}, FewerRows},
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

// TestRowsOfSpec has specs of which the program has as many rows.
func TestRowsOfSpec(t *testing.T) {
	for want, s := range []*pb.Spec{
		SameRows:  {Transforms: []*pb.Transform{{Op: "log1p"}, {Op: "python", Python: &pb.Function{}}}},
		FewerRows: {Transforms: []*pb.Transform{{Op: "log1p"}, {Op: "sample"}}},
		MoreRows:  {Transforms: []*pb.Transform{{Op: "python", Python: &pb.Function{Kind: pb.FunctionKind_FLAT_MAP}}}},
	} {
		if got := RowsOfSpec(s); got != Rows(want) {
			t.Errorf("%v: got %d, want %d", s, got, want)
		}
	}
	for _, s := range []*pb.Spec{
		{Filter: "x > 1"}, {Transforms: []*pb.Transform{{Op: "python", Python: &pb.Function{Kind: pb.FunctionKind_FILTER}}}},
	} {
		if got := RowsOfSpec(s); got != FewerRows {
			t.Errorf("%v: got %d, want %d", s, got, FewerRows)
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
