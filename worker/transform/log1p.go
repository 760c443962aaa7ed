package transform

import (
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

func log1p() Op {
	return Op{
		Name:    "log1p",
		Version: 1,
		Summary: "ln(1+x): -inf for -1, NaN below it. Ints count as float32.",
		Maps:    true,
		Inputs:  scalarOrListOfNumbers,
		Output:  "float64 for float64, else float32; scalar or list like the input",
		Example: "{op: log1p, in: int_*, out: \"{}_log\"}",
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			if in[0].Kind == pb.Kind_FLOAT64 {
				return in[0], nil
			}
			return inferFloat32(p, in)
		},
		New: func(_ Params, in []spec.Type) (Kernel, error) {
			switch in[0].Kind {
			case pb.Kind_INT32:
				return Elementwise(logs32[int32]), nil
			case pb.Kind_INT64:
				return Elementwise(logs32[int64]), nil
			case pb.Kind_FLOAT64:
				return Elementwise(logs64), nil
			}
			return Elementwise(logs32[float32]), nil
		},
	}
}

func logs32[S int32 | int64 | float32](dst []float32, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = float32(math.Log1p(float64(float32(v))))
	}
}

func logs64(dst, src []float64) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = math.Log1p(v)
	}
}
