package reference

import (
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// isNumeric reports whether an op on numbers takes values of a kind.
func isNumeric(k pb.Kind) bool {
	return k == pb.Kind_INT32 || k == pb.Kind_INT64 || k == pb.Kind_FLOAT32 || k == pb.Kind_FLOAT64
}

// fillNull puts a constant in the place of null scalars and of null elements; null lists stay null.
func fillNull(p parameters, in []spec.Type) (operation, error) {
	one, err := constant(p["value"], spec.Type{Kind: in[0].Kind})
	if err != nil {
		return operation{}, err
	}
	list := in[0].List
	return operation{out: in[0], run: func(in []*cell, out *cell) error {
		if in[0].null && !list {
			out.copyFrom(one)
			return nil
		}
		out.copyFrom(in[0])
		for j := range out.gone {
			if out.gone[j] {
				out.gone[j] = false
				out.set(j, one)
			}
		}
		return nil
	}}, nil
}

// set makes value j that of a scalar.
func (c *cell) set(j int, scalar *cell) {
	switch {
	case len(scalar.ints) > 0:
		c.ints[j] = scalar.ints[0]
	case len(scalar.floats) > 0:
		c.floats[j] = scalar.floats[0]
	default:
		c.texts[j] = scalar.texts[0]
	}
}

// clamp moves numbers below min to min and those above max to max.
func clamp(p parameters, in []spec.Type) (operation, error) {
	switch in[0].Kind {
	case pb.Kind_INT32, pb.Kind_INT64:
		low, err1 := p.int("min", math.MinInt64)
		high, err2 := p.int("max", math.MaxInt64)
		return eachInt(in[0], func(x int64) int64 {
			if x < low {
				return low
			}
			if x > high {
				return high
			}
			return x
		}), errors.Join(err1, err2)
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		low, err1 := p.float("min", math.Inf(-1))
		high, err2 := p.float("max", math.Inf(1))
		if in[0].Kind == pb.Kind_FLOAT32 {
			low, high = float64(float32(low)), float64(float32(high))
		}
		return eachFloat(in[0], func(x float64) float64 {
			if x < low {
				return low
			}
			if x > high {
				return high
			}
			return x
		}), errors.Join(err1, err2)
	}
	return operation{}, fmt.Errorf("input is %v; want numbers", in[0])
}

// normalize is (x - mean) / std in float32.
func normalize(p parameters, in []spec.Type) (operation, error) {
	mean, err1 := p.float("mean", math.NaN())
	std, err2 := p.float("std", math.NaN())
	if err := errors.Join(err1, err2); err != nil {
		return operation{}, err
	}
	return toFloat32(in[0], func(x float32) float32 { return (x - float32(mean)) / float32(std) })
}

// toFloat32 makes an op that rounds numbers to float32 and then maps them.
func toFloat32(in spec.Type, f func(x float32) float32) (operation, error) {
	return eachNumber(in,
		func(x int64) float64 { return float64(f(float32(x))) },
		func(x float64) float64 { return float64(f(float32(x))) })
}

// eachNumber makes an op that turns each number into a float32, and keeps nulls.
func eachNumber(in spec.Type, ofInt func(x int64) float64, ofFloat func(x float64) float64) (operation, error) {
	if !isNumeric(in.Kind) {
		return operation{}, fmt.Errorf("input is %v; want numbers", in)
	}
	return operation{out: spec.Type{Kind: pb.Kind_FLOAT32, List: in.List}, run: func(in []*cell, out *cell) error {
		out.null = in[0].null
		out.gone = append(out.gone, in[0].gone...)
		for _, x := range in[0].ints {
			out.floats = append(out.floats, ofInt(x))
		}
		for _, x := range in[0].floats {
			out.floats = append(out.floats, ofFloat(x))
		}
		return nil
	}}, nil
}

// bucketize finds the first border that is not below a number.
func bucketize(p parameters, in []spec.Type) (operation, error) {
	borders, err := p.floats("borders")
	if err != nil {
		return operation{}, err
	}
	if !isNumeric(in[0].Kind) {
		return operation{}, fmt.Errorf("input is %v; want numbers", in[0])
	}
	if in[0].Kind == pb.Kind_FLOAT32 {
		for i, b := range borders {
			borders[i] = float64(float32(b))
		}
	}
	return operation{out: spec.Type{Kind: pb.Kind_INT32, List: in[0].List}, run: func(in []*cell, out *cell) error {
		out.null = in[0].null
		out.gone = append(out.gone, in[0].gone...)
		for _, x := range in[0].ints {
			out.ints = append(out.ints, bucket(borders, func(border float64) bool { return !above(x, border) }))
		}
		for _, x := range in[0].floats {
			out.ints = append(out.ints, bucket(borders, func(border float64) bool { return x <= border }))
		}
		return nil
	}}, nil
}

func bucket(borders []float64, fits func(border float64) bool) int64 {
	for i, b := range borders {
		if fits(b) {
			return int64(i)
		}
	}
	return int64(len(borders))
}

// above reports whether x > border, exactly.
func above(x int64, border float64) bool {
	border = math.Floor(border)
	switch {
	case border >= 1<<63:
		return false
	case border < -1<<63:
		return true
	}
	return x > int64(border)
}
