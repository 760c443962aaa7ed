package decode_test

import (
	"math"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// A program's levels of lists are bounded as files' are.
func TestConstantRefusesLevels(t *testing.T) {
	for nested, ok := range map[uint32]bool{spec.MaxNested: true, spec.MaxNested + 1: false, math.MaxUint32: false} {
		typ := &pb.Type{Kind: pb.Kind_INT32, List: true, Nested: nested}
		if _, err := decode.NewConstant(typ, nil, decode.NewAllowance(1<<20)); (err == nil) != ok {
			t.Errorf("%d levels: %v", nested, err)
		}
	}
}
