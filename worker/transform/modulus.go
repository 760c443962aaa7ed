package transform

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// positiveModulus is the remainder of the division by modulus that is not negative.
func positiveModulus() Op {
	return Op{
		Name:    "positive_modulus",
		Version: 1,
		Summary: "The remainder of the division by modulus, in [0, modulus) for negative ids, too.",
		Exact:   "int64 in [0, modulus): x - modulus * floor(x / modulus)",
		Maps:    true,
		Inputs:  "scalar or list of ints",
		Output:  "int64, scalar or list like the input",
		Params: []Param{{
			Name: "modulus", Want: PositiveInt, Required: true, Positional: true,
			Doc: "count of results, as of an embedding table's rows",
		}},
		Example: "{op: positive_modulus, in: cat_*, modulus: 100000}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !isInteger(in[0].Kind) {
				return spec.Type{}, fmt.Errorf("in: want a scalar or list of ints, found %v", in[0])
			}
			return spec.Type{Kind: pb.Kind_INT64, List: in[0].List}, nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			m := newModulus(p.Int("modulus"))
			if in[0].Kind == pb.Kind_INT32 {
				return Elementwise(func(dst []int64, src []int32) { remainders(dst, src, m) }), nil
			}
			return changes{elementwise[int64, int64]{loop: func(dst, src []int64) { remainders(dst, src, m) }}}, nil
		},
	}
}

func remainders[S int32 | int64](dst []int64, src []S, m modulus) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = m.of(uint64(int64(v)))
	}
}
