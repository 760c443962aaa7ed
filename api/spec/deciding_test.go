package spec

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestDrawsRows holds that what draws counts only where it decides which rows there are.
func TestDrawsRows(t *testing.T) {
	seed := map[string]*pb.Value{"seed": {Kind: &pb.Value_Int{Int: 1}}}
	picture := &pb.Type{Kind: pb.Kind_PICTURE}
	number := func(in uint32) *pb.Step { // a hash, whose seed draws nothing
		return &pb.Step{Op: "sigrid_hash", In: []uint32{in}, Outs: 1, Params: seed, Type: &pb.Type{Kind: pb.Kind_INT64}}
	}
	photo := func(op string, params map[string]*pb.Value) *pb.Step {
		return &pb.Step{Op: op, In: []uint32{0}, Outs: 1, Params: params, Type: picture}
	}
	function := func(kind pb.FunctionKind, rng bool, outs uint32, in ...uint32) *pb.Step {
		return &pb.Step{Op: "python", In: in, Outs: outs, Python: &pb.Function{Kind: kind, Rng: rng}}
	}
	const keep, many, maps = pb.FunctionKind_FILTER, pb.FunctionKind_FLAT_MAP, pb.FunctionKind_MAP
	for _, c := range []struct {
		name  string
		steps []*pb.Step // of one source
		want  bool
	}{
		{"nothing", nil, false},
		{"a sample", []*pb.Step{{Op: "sample", Params: seed}}, true},
		{"a filter of what is hashed", []*pb.Step{number(0), function(keep, false, 0, 1)}, false},
		{"a filter that draws", []*pb.Step{function(keep, true, 0, 0)}, true},
		{"a flat_map that draws", []*pb.Step{function(many, true, 1, 0)}, true},
		{"a map before a filter, which reads it", []*pb.Step{function(maps, true, 1, 0), function(keep, false, 0, 1)}, true},
		{"a map before a filter", []*pb.Step{function(maps, true, 1, 0), function(keep, false, 0, 0)}, false},
		{"a map behind it", []*pb.Step{function(many, false, 1, 0), function(maps, true, 1, 1)}, false},
		{"a map behind a flat_map, before a filter", []*pb.Step{
			function(many, false, 1, 0), function(maps, true, 1, 1), function(keep, false, 0, 2),
		}, true},
		{"a filter of pictures", []*pb.Step{photo("decode_image", nil), function(keep, false, 0, 1)}, false},
		{"a filter of turned pictures", []*pb.Step{photo("flip", seed), function(keep, false, 0, 1)}, true},
		{"a filter beside turned pictures", []*pb.Step{photo("flip", seed), function(keep, false, 0, 0)}, false},
	} {
		p := &pb.Program{Sources: []*pb.Source{{Name: "x"}}, Filter: "x > 1", Steps: c.steps}
		if got := DrawsRows(p); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
