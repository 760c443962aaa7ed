package transform_test

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// ratio is an op of one's own. Inputs are zero where they are null, and the result is null where one of them is: the
// kernel need not look. It does not want a ratio to nothing, either, and says so.
func ratio() transform.Op {
	number := spec.Type{Kind: pb.Kind_FLOAT64}
	return transform.Op{
		Name:    "ratio",
		Version: 1,
		Summary: "a / b, or null if b is 0.",
		Inputs:  "two float64 scalars",
		Output:  "float64",
		Params: []transform.Param{
			{Name: "scale", Want: transform.Number, Default: 1, Doc: "the result is multiplied by it"},
		},
		Example: "{op: ratio, in: [price, size], out: price_by_size}",
		Infer: func(_ transform.Params, in []spec.Type) (spec.Type, error) {
			if len(in) != 2 || in[0] != number || in[1] != number {
				return spec.Type{}, fmt.Errorf("in: want two float64 scalars, found %v", in)
			}
			return number, nil
		},
		New: func(p transform.Params, _ []spec.Type) (transform.Kernel, error) {
			return ratioKernel{p.Number("scale")}, nil
		},
	}
}

type ratioKernel struct{ scale float64 }

// Run finds as many zeros in out as there are rows.
func (k ratioKernel) Run(out *vector.Vector, in []*vector.Vector) error {
	a, b := in[0].F64, in[1].F64
	for row := range out.Rows {
		if b[row] == 0 {
			out.SetNull(row)
			continue
		}
		out.F64[row] = a[row] / b[row] * k.scale
	}
	return nil
}

// A registry with an op of one's own is made in a main of one's own, and given to worker and master. Here the Program,
// which the master makes of a spec, is written by hand.
func ExampleRegistry_With() {
	ops, err := transform.Builtin().With(ratio())
	if err != nil {
		fmt.Println(err)
		return
	}
	float64s := &pb.Type{Kind: pb.Kind_FLOAT64}
	chain, err := transform.Compile(ops, &pb.Program{
		Sources: []*pb.Source{{Name: "price", Type: float64s}, {Name: "size", Type: float64s}},
		Steps: []*pb.Step{{
			Op: "ratio", Version: 1, In: []uint32{0, 1}, Outs: 1, Name: "ratio", At: "transforms[0]",
			Type: float64s,
		}},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	number := spec.TypeFromProto(float64s)
	// row 1 is null
	price := &vector.Vector{Type: number, Rows: 4, F64: []float64{6, 99, 8, 5}, Valid: []uint64{0b1101}}
	size := &vector.Vector{Type: number, Rows: 4, F64: []float64{3, 2, 4, 0}}
	slots, err := chain.Run(context.Background(), []*vector.Vector{price, size})
	if err != nil {
		fmt.Println(err)
		return
	}
	for row := range 4 {
		fmt.Println(slots[2].F64[row], slots[2].IsNull(row))
	}
	// Output:
	// 2 false
	// 0 true
	// 2 false
	// 0 true
}
