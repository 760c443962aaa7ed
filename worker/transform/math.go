package transform

import (
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// clamp moves numbers into [min, max]. It compares as Go does: NaN stays NaN, and a zero keeps its sign.
func clamp() Op {
	return Op{
		Name:    "clamp",
		Version: 1,
		Summary: "Moves numbers below min to min and above max to max; NaN stays.",
		Exact: "`v < min` gives min, else `v > max` gives max, else v, of the input's kind. NaN stays NaN, and " +
			"-0 is not below 0. For float32 the bounds are rounded to float32, where finite ones must stay " +
			"finite; for ints they must be ints of that kind. Either may be left out",
		Maps:   true,
		Inputs: scalarOrListOfNumbers,
		Output: sameAsInput,
		Keeps:  true,
		Params: []Param{
			{Name: "min", Want: Number, Fitted: true, Doc: "least result; an int for features of ints"},
			{Name: "max", Want: Number, Fitted: true, Doc: "greatest result; an int for features of ints"},
		},
		Example: "{op: clamp, in: int_*, min: 0, max: 100}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			return in[0], checkNumbers(in[0])
		},
		New: newClamp,
	}
}

func newClamp(p Params, in []spec.Type) (Kernel, error) {
	if !p.Has("min") && !p.Has("max") {
		return nil, errors.New("min, max: missing; want one of them, or both")
	}
	if isFloat(in[0].Kind) {
		low, high := math.Inf(-1), math.Inf(1)
		if p.Has("min") {
			low = p.Number("min")
		}
		if p.Has("max") {
			high = p.Number("max")
		}
		if low > high {
			return nil, fmt.Errorf("min: want one that is not above max, found %v and %v", low, high)
		}
		if in[0].Kind == pb.Kind_FLOAT32 {
			for _, name := range []string{"min", "max"} {
				if overflows(p.Number(name)) {
					return nil, fmt.Errorf("%s: want a finite float32, found %s", name, show(p.Value(name)))
				}
			}
			low, high := float32(low), float32(high)
			return Elementwise(func(dst, src []float32) { clampFloat32(dst, src, low, high) }), nil
		}
		return clampTo(low, high), nil
	}
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	if in[0].Kind == pb.Kind_INT32 {
		least, most = math.MinInt32, math.MaxInt32
	}
	low, high := least, most
	for name, bound := range map[string]*int64{"min": &low, "max": &high} {
		if !p.Has(name) {
			continue
		}
		n, ok := integer(p.Value(name))
		if !ok || n < least || n > most {
			return nil, fmt.Errorf("%s: want an int from %d to %d to clamp %v, found %s",
				name, least, most, in[0], show(p.Value(name)))
		}
		*bound = n
	}
	if low > high {
		return nil, fmt.Errorf("min: want one that is not above max, found %d and %d", low, high)
	}
	if in[0].Kind == pb.Kind_INT32 {
		return clampTo(int32(low), int32(high)), nil
	}
	return clampTo(low, high), nil
}

func clampTo[T int32 | int64 | float64](low, high T) Kernel {
	return Elementwise(func(dst, src []T) { clampPlain(dst, src, low, high) })
}

// clampPlain does not branch on the values where the compiler has conditional moves for them: not for floats.
func clampPlain[T int32 | int64 | float32 | float64](dst, src []T, low, high T) {
	dst = dst[:len(src)]
	for i, v := range src {
		if v < low {
			v = low
		}
		if v > high {
			v = high
		}
		dst[i] = v
	}
}

// normalize is (x - mean) / std in float32: inputs, mean and std are rounded to float32 first.
func normalize() Op {
	return Op{
		Name:    "normalize",
		Version: 1,
		Summary: "(x - mean) / std, in float32; of a picture's bytes, x/255 takes the place of x.",
		Exact: "of numbers `(float32(x) - float32(mean)) / float32(std)`, each operation rounded to float32; " +
			"of pictures `(float32(x)/255 - float32(mean)) / float32(std)` of each byte, each operation rounded " +
			"to float32; lists have a number for each channel",
		Maps:     true,
		Inputs:   "scalar or list of numbers, or pictures",
		Pictures: true,
		Output:   "float32, scalar or list like the input, or pictures of float32",
		Params: []Param{
			{
				Name: "mean", Want: NumberOrMore, Fitted: true, Required: true, Positional: true,
				Doc: "finite; of pictures one for each channel, or for all",
			},
			{
				Name: "std", Want: NumberOrMore, Fitted: true, Required: true, Positional: true,
				Doc: "finite, above 0; of pictures one for each channel, or for all",
			},
		},
		Example: "{op: normalize, in: int_1, mean: 3.5, std: 9.4}",
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			if isPicture(in[0]) {
				return inferNormalPicture(in[0])
			}
			return inferFloat32(p, in)
		},
		New: newNormalize,
	}
}

func newNormalize(p Params, in []spec.Type) (Kernel, error) {
	channels := 1
	if isPicture(in[0]) {
		channels = int(in[0].Picture.Channels)
	}
	means, stds, err := normals(p, channels)
	if err != nil {
		return nil, err
	}
	mean, std := means[0], stds[0]
	switch in[0].Kind {
	case pb.Kind_INT32:
		return scale[float32, int32](mean, std), nil
	case pb.Kind_INT64:
		return scale[float32, int64](mean, std), nil
	case pb.Kind_FLOAT64:
		return scale[float32, float64](mean, std), nil
	case pb.Kind_PICTURE:
		return newNormalPicture(means, stds), nil
	}
	return Elementwise(func(dst, src []float32) { standardizeFloat32(dst, src, mean, std) }), nil
}

// normals are the means and deviations of so many channels.
func normals(p Params, channels int) (mean, std []float32, err error) {
	for _, name := range []string{"mean", "std"} {
		given := p.Numbers(name)
		if len(given) != 1 && len(given) != channels {
			want := "a number"
			if channels > 1 {
				want = fmt.Sprintf("a number, or one for each of %d channels", channels)
			}
			return nil, nil, fmt.Errorf("%s: want %s, found %s", name, want, show(p.Value(name)))
		}
		numbers := make([]float32, channels)
		for i := range numbers {
			x := float32(given[min(i, len(given)-1)])
			switch {
			case name == "mean" && math.IsInf(float64(x), 0):
				return nil, nil, fmt.Errorf("mean: want a finite float32, found %s", show(p.Value("mean")))
			case name == "std" && (!(x > 0) || math.IsInf(float64(x), 0)):
				return nil, nil, fmt.Errorf("std: want a finite float32 above 0, found %s", show(p.Value("std")))
			}
			numbers[i] = x
		}
		mean, std = std, numbers
	}
	return mean, std, nil
}

// inferFloat32 is for ops that make float32 of any numbers.
func inferFloat32(_ Params, in []spec.Type) (spec.Type, error) {
	return spec.Type{Kind: pb.Kind_FLOAT32, List: in[0].List}, checkNumbers(in[0])
}

func standardizePlain(dst, src []float32, mean, std float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = (v - mean) / std
	}
}
