package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// logit is ln(x / (1-x)), as torch.logit.
func logit() Op {
	return Op{
		Name:    "logit",
		Version: 1,
		Summary: "ln(x / (1-x)), of x moved into [eps, 1-eps] if eps is given, as torch.logit. Ints count as float32.",
		Exact: "ln(x/(1-x)); 0 gives -inf, 1 gives inf, what lies outside and NaN give NaN. With eps, x below " +
			"eps counts as eps and x above 1-eps as 1-eps. Kinds as for `log1p`, see below",
		Maps:   true,
		Inputs: scalarOrListOfNumbers,
		Output: floatLikeInput,
		Params: []Param{{
			Name: "eps", Want: Number,
			Doc: "from 0 to 0.5; left out, results are infinite at 0 and 1, and NaN outside",
		}},
		Example: "{op: logit, in: int_1, eps: 0.000001}",
		Infer:   inferFloat,
		New: func(p Params, in []spec.Type) (Kernel, error) {
			low, high := math.Inf(-1), math.Inf(1)
			if p.Has("eps") {
				low = p.Number("eps")
				high = 1 - low
				if !(low >= 0 && low <= 0.5) {
					return nil, fmt.Errorf("eps: want a number from 0 to 0.5, found %s", show(p.Value("eps")))
				}
			}
			return float64Kernel(in[0].Kind, func(x float64) float64 {
				if x < low {
					x = low
				}
				if x > high {
					x = high
				}
				return logit64(x)
			}), nil
		},
	}
}

// logit64 is off by less than 3 units in the last place. From 1/4 on, where x / (1-x) may be near 1, it is the
// logarithm of 1 plus what that differs by, which is exact but for the division.
func logit64(x float64) float64 {
	if x < 0.25 {
		return ln64(x / (1 - x))
	}
	return log1p64((2*x - 1) / (1 - x))
}

// boxCox is (x^lambda - 1) / lambda, and ln(x) for lambda 0.
func boxCox() Op {
	return Op{
		Name:    "box_cox",
		Version: 1,
		Summary: "(x^lambda - 1) / lambda, or ln(x) if lambda is 0; NaN below 0. Ints count as float32.",
		Exact: "(x^lambda - 1) / lambda, ln(x) for lambda 0; 0 gives -1/lambda if lambda is above 0, else " +
			"-inf; below 0 and NaN: NaN. Kinds as for `log1p`, see below",
		Maps:    true,
		Inputs:  scalarOrListOfNumbers,
		Output:  floatLikeInput,
		Params:  []Param{{Name: "lambda", Want: Number, Required: true, Positional: true, Doc: "finite"}},
		Example: "{op: box_cox, in: int_1, lambda: 0.5}",
		Infer:   inferFloat,
		New: func(p Params, in []spec.Type) (Kernel, error) {
			lambda := p.Number("lambda")
			switch {
			case math.IsInf(lambda, 0):
				return nil, fmt.Errorf("lambda: want a finite number, found %s", show(p.Value("lambda")))
			case lambda == 0:
				return float64Kernel(in[0].Kind, ln64), nil
			}
			return float64Kernel(in[0].Kind, func(x float64) float64 { return expm1(lambda*ln64(x)) / lambda }), nil
		},
	}
}

// floatLikeInput is the output of ops that make floats, in the words of Op.Output.
const floatLikeInput = "float64 for float64, else float32; scalar or list like the input"

// inferFloat is for ops that make float64 of float64, and float32 of other numbers.
func inferFloat(p Params, in []spec.Type) (spec.Type, error) {
	if in[0].Kind == pb.Kind_FLOAT64 {
		return in[0], nil
	}
	return inferFloat32(p, in)
}

// float64Kernel maps numbers by a function of float64: those of other kinds are rounded to float32 first, and their
// results after.
func float64Kernel(from pb.Kind, f func(float64) float64) Kernel {
	switch from {
	case pb.Kind_INT32:
		return throughFloat64[int32](f)
	case pb.Kind_INT64:
		return throughFloat64[int64](f)
	case pb.Kind_FLOAT32:
		return throughFloat64[float32](f)
	}
	return Elementwise(func(dst, src []float64) {
		dst = dst[:len(src)]
		for i, v := range src {
			dst[i] = f(v)
		}
	})
}

func throughFloat64[S int32 | int64 | float32](f func(float64) float64) Kernel {
	return Elementwise(func(dst []float32, src []S) {
		dst = dst[:len(src)]
		for i, v := range src {
			dst[i] = float32(f(float64(float32(v))))
		}
	})
}
