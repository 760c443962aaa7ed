package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// scaleTo01 is TorchArrow's functional.scale_to_0_1 with the column's extremes given.
func scaleTo01() Op {
	return Op{
		Name:    "scale_to_0_1",
		Version: 1,
		Summary: "(x - min) / (max - min): [min, max] becomes [0, 1], and what lies outside stays outside.",
		Exact: "`(x - min) / (max - min)`, not clamped. In float64, of ints with the result rounded to " +
			"float32; for float32 in float32, with min and the difference `max - min` of float64 rounded to it " +
			"first",
		Maps:   true,
		Inputs: scalarOrListOfNumbers,
		Output: floatLikeInput,
		Params: []Param{
			{Name: "min", Want: Number, Fitted: true, Required: true, Doc: "what becomes 0; finite"},
			{Name: "max", Want: Number, Fitted: true, Required: true, Doc: "what becomes 1; finite, above min"},
			fitted("in place of min and max, which are then those of the data"),
		},
		Fitting: spec.Fitting{By: "of", Params: map[string]string{"min": spec.Min, "max": spec.Max}},
		Example: "{op: scale_to_0_1, in: int_*, min: 0, max: 255}",
		Infer:   inferFloat,
		New: func(p Params, in []spec.Type) (Kernel, error) {
			return newScale(in[0].Kind, p, "min", "max", p.Number("max")-p.Number("min"))
		},
	}
}

// scaleToZScore is TorchArrow's functional.scale_to_z_score with the column's statistics given. Other than normalize,
// it keeps float64, and subtracts from ints before it rounds.
func scaleToZScore() Op {
	return Op{
		Name:    "scale_to_z_score",
		Version: 1,
		Summary: "(x - mean) / std; like normalize, but float64 stays float64, and ints are rounded to float32 last.",
		Exact: "`(x - mean) / std`, computed like `scale_to_0_1`: other than with `normalize`, float64 stays " +
			"float64, and ints are not rounded to float32 first",
		Maps:   true,
		Inputs: scalarOrListOfNumbers,
		Output: floatLikeInput,
		Params: []Param{
			{Name: "mean", Want: Number, Fitted: true, Required: true, Positional: true, Doc: "what becomes 0; finite"},
			{Name: "std", Want: Number, Fitted: true, Required: true, Positional: true, Doc: "finite, above 0"},
			fitted("in place of mean and std, which are then those of the data"),
		},
		Fitting: spec.Fitting{By: "of", Params: map[string]string{"mean": spec.Mean, "std": spec.Std}},
		Example: "{op: scale_to_z_score, in: int_1, mean: 3.5, std: 9.4}",
		Infer:   inferFloat,
		New: func(p Params, in []spec.Type) (Kernel, error) {
			return newScale(in[0].Kind, p, "mean", "std", p.Number("std"))
		},
	}
}

// fitted is the parameter `of`, in place of those that the data then say.
func fitted(doc string) Param {
	return Param{Name: "of", Want: Text, OneOf: []string{spec.FitWord}, Doc: doc}
}

// newScale makes (x - offset) / span, where parameter from is the offset, and to is to blame for the span. Of ints it
// is computed in float64: float32 does not tell ids and timestamps that are near each other apart.
func newScale(kind pb.Kind, p Params, from, to string, span float64) (Kernel, error) {
	offset := p.Number(from)
	what := "number"
	if kind == pb.Kind_FLOAT32 {
		what, offset, span = "float32", float64(float32(offset)), float64(float32(span))
	}
	switch {
	case math.IsInf(offset, 0):
		return nil, fmt.Errorf("%s: want a finite %s, found %s", from, what, show(p.Value(from)))
	case !(span > 0) || math.IsInf(span, 0):
		least := "0"
		if from == "min" {
			least = "min, which is " + show(p.Value("min"))
		}
		return nil, fmt.Errorf("%s: want a finite %s above %s, found %s", to, what, least, show(p.Value(to)))
	}
	switch kind {
	case pb.Kind_INT32:
		return scale[float32, int32](offset, span), nil
	case pb.Kind_INT64:
		return scale[float32, int64](offset, span), nil
	case pb.Kind_FLOAT32:
		return scale[float32, float32](float32(offset), float32(span)), nil
	}
	return scale[float64, float64](offset, span), nil
}

// scale makes D of S, and computes in C.
func scale[D float32 | float64, S int32 | int64 | float32 | float64, C float32 | float64](offset, span C) Kernel {
	return Elementwise(func(dst []D, src []S) {
		dst = dst[:len(src)]
		for i, v := range src {
			dst[i] = D((C(v) - offset) / span)
		}
	})
}
