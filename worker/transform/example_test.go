package transform_test

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// celsius is an op of one's own. It computes in float64 and converts the product explicitly, so that no compiler fuses
// it with the sum before it.
func celsius() transform.Op {
	return transform.Op{
		Name:    "celsius",
		Version: 1,
		Summary: "Fahrenheit to Celsius, in float64.",
		Maps:    true,
		Inputs:  "scalar or list of float64",
		Output:  "the input's type",
		Params: []transform.Param{
			{Name: "offset", Want: transform.Number, Default: 0, Doc: "added to the result"},
		},
		Example: "{op: celsius, in: temperature_*, offset: 273.15}",
		Infer: func(_ transform.Params, in []spec.Type) (spec.Type, error) {
			if in[0].Kind != pb.Kind_FLOAT64 {
				return spec.Type{}, fmt.Errorf("in: want float64, found %v", in[0])
			}
			return in[0], nil
		},
		New: func(p transform.Params, _ []spec.Type) (transform.Kernel, error) {
			offset := p.Number("offset")
			return transform.Elementwise(func(dst, src []float64) {
				for i, f := range src {
					dst[i] = float64((f-32)*(5./9)) + offset
				}
			}), nil
		},
	}
}

// A registry with an op of one's own is made in a main of one's own, and given to worker and master. Here the Program,
// which the master makes of a spec, is written by hand.
func ExampleRegistry_With() {
	ops, err := transform.Builtin().With(celsius())
	if err != nil {
		fmt.Println(err)
		return
	}
	float64s := &pb.Type{Kind: pb.Kind_FLOAT64}
	chain, err := transform.Compile(ops, &pb.Program{
		Sources: []*pb.Source{{Name: "temperature", Type: float64s}},
		Steps:   []*pb.Step{{Op: "celsius", Version: 1, In: []uint32{0}, Outs: 1, Name: "celsius", At: "transforms[0]", Type: float64s}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	temperature := &vector.Vector{Type: spec.TypeFromProto(float64s), Rows: 3, F64: []float64{32, 212, -40}}
	slots, err := chain.Run([]*vector.Vector{temperature})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(slots[1].F64)
	// Output: [0 100 -40]
}
