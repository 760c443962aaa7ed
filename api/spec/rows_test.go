package spec

import (
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
