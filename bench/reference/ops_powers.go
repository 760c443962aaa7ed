package reference

import (
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// inFloat64 makes an op of a function of float64: of float64 in float64, of all else, rounded to float32, with the
// result rounded to float32.
func inFloat64(in spec.Type, f func(x float64) float64) (operation, error) {
	if in.Kind == pb.Kind_FLOAT64 {
		return eachFloat(in, f), nil
	}
	return toFloat32(in, func(x float32) float32 { return float32(f(float64(x))) })
}

// logit is ln(x / (1-x)), of x within eps and 1-eps if eps is given.
func logit(p parameters, in []spec.Type) (operation, error) {
	eps, err := p.float("eps", math.Inf(-1))
	if err != nil {
		return operation{}, err
	}
	table := newLogTable()
	return inFloat64(in[0], func(x float64) float64 {
		switch {
		case x < eps:
			x = eps
		case x > 1-eps:
			x = 1 - eps
		}
		if x < 0.25 {
			return table.ln(x / (1 - x))
		}
		return table.log((float64(2*x) - 1) / (1 - x))
	})
}

// boxCox is (x^lambda - 1) / lambda.
func boxCox(p parameters, in []spec.Type) (operation, error) {
	lambda, err := p.float("lambda", math.NaN())
	if err != nil || math.IsNaN(lambda) {
		return operation{}, errors.Join(errors.New("lambda is missing"), err)
	}
	table := newLogTable()
	return inFloat64(in[0], func(x float64) float64 {
		if lambda == 0 {
			return table.ln(x)
		}
		return expMinusOne(float64(lambda*table.ln(x))) / lambda
	})
}

// expMinusOne is e^y - 1 in the one way that the ops' code gives: y is k*ln(2) + r with k the nearest integer, and the
// result 2^k*(e^r - 1) + 2^k - 1.
func expMinusOne(y float64) float64 {
	switch {
	case y == 0, y != y, math.IsInf(y, 1):
		return y
	case y < -50:
		return -1
	case y > 0x1.62e42fefa39efp+9:
		return math.Inf(1)
	}
	k, e := expParts(y)
	switch {
	case k == 0:
		return e
	case k > 1023:
		return 2 * math.Ldexp(1+e, 1023)
	}
	return math.Ldexp(e, int(k)) + (math.Ldexp(1, int(k)) - 1)
}

// expParts is e^y as 2^k * (1 + e), with k the nearest integer to y/ln(2).
func expParts(y float64) (k, e float64) {
	k = math.Floor(float64(y*0x1.71547652b82fep+0) + 0.5)
	high, low := y-float64(k*ln2High), float64(k*ln2Low)
	r := high - low
	return k, r + (expTail(r) + ((high - r) - low))
}

// expTail is e^r - 1 - r: the sum of r^n/n! for n from 2 to 14, two terms after two, those by four, and then all by
// eight.
func expTail(r float64) float64 {
	over := [15]float64{1}
	factorial := 1.
	for n := 1; n < len(over); n++ {
		factorial *= float64(n)
		over[n] = 1 / factorial
	}
	two := func(n int) float64 { return over[n] + float64(r*over[n+1]) }
	square := float64(r * r)
	four := func(n int) float64 { return two(n) + float64(square*two(n+2)) }
	fourth := float64(square * square)
	eight := float64(fourth * fourth)
	return float64(square * ((four(2) + float64(fourth*four(6))) + float64(eight*(four(10)+float64(fourth*over[14])))))
}

// scaleTo01 is (x - min) / (max - min).
func scaleTo01(p parameters, in []spec.Type) (operation, error) {
	low, err1 := p.float("min", math.NaN())
	high, err2 := p.float("max", math.NaN())
	return scale(in[0], low, high-low, errors.Join(err1, err2))
}

// scaleToZScore is (x - mean) / std.
func scaleToZScore(p parameters, in []spec.Type) (operation, error) {
	mean, err1 := p.float("mean", math.NaN())
	std, err2 := p.float("std", math.NaN())
	return scale(in[0], mean, std, errors.Join(err1, err2))
}

// scale makes (x - offset) / span: of float32 in float32, of all else in float64, where what ints become is a float32.
func scale(in spec.Type, offset, span float64, err error) (operation, error) {
	if err != nil || !(span > 0) {
		return operation{}, errors.Join(fmt.Errorf("the span is %v", span), err)
	}
	exactly := func(x float64) float64 { return (x - offset) / span }
	if in.Kind == pb.Kind_FLOAT64 {
		return eachFloat(in, exactly), nil
	}
	return eachNumber(in,
		func(x int64) float64 { return float64(float32(exactly(float64(x)))) },
		func(x float64) float64 { return float64((float32(x) - float32(offset)) / float32(span)) })
}
