package transform

import "math"

// exp64 is e^y, off by less than 1 unit in the last place: 2^k * (1 + what is beyond 1 of e^r), as in expm1.
func exp64(y float64) float64 {
	switch {
	case y != y:
		return y
	case y > 710:
		return math.Inf(1)
	case y < -746:
		return 0
	}
	k, e := expParts(y)
	return math.Ldexp(1+e, int(k))
}

// double is a number of twice a float64's precision: the sum of a float64 and of what is far below its last place.
type double struct{ high, low float64 }

// quickSum is a + b for |a| >= |b|, exactly.
func quickSum(a, b float64) double {
	sum := a + b
	return double{sum, b - (sum - a)}
}

// exactSum is a + b.
func exactSum(a, b float64) double {
	sum := a + b
	rest := sum - a
	return double{sum, (a - (sum - rest)) + (b - rest)}
}

// exactProduct is a * b.
func exactProduct(a, b float64) double {
	product := float64(a * b)
	return double{product, math.FMA(a, b, -product)}
}

func (a double) times(b double) double {
	p := exactProduct(a.high, b.high)
	return quickSum(p.high, p.low+(float64(a.high*b.low)+float64(a.low*b.high)))
}

func (a double) plus(b double) double {
	sum := exactSum(a.high, b.high)
	return quickSum(sum.high, sum.low+(a.low+b.low))
}

// expDouble is e^y as 2^k * (1 + e), e good to about 100 bits of it.
func expDouble(y double) (k float64, e double) {
	const (
		perLn2  = 0x1.71547652b82fep+0
		ln2Rest = 0x1.f97b57a079a19p-103 // beyond ln2Hi and ln2Lo
		halves  = 10                     // of r, before it goes into the series
	)
	k = math.Floor(float64(y.high*perLn2) + 0.5)
	r := exactSum(y.high-float64(k*ln2Hi), y.low) // exact: both are near each other, and the product is
	low := exactProduct(k, ln2Lo)
	r = r.plus(double{-low.high, -low.low}).plus(double{-float64(k * ln2Rest), 0})
	s := double{float64(r.high * (1. / (1 << halves))), float64(r.low * (1. / (1 << halves)))}
	// e^s - 1 = s + s^2 * (1/2 + s * (1/6 + s * (1/24 + s * ...)))
	rest := float64(s.high * (1./120 + float64(s.high*(1./720+float64(s.high*(1./5040+float64(s.high*(1./40320))))))))
	q := double{0x1.5555555555555p-5, 0x1.5555555555555p-59}.plus(double{rest, 0})
	q = double{0x1.5555555555555p-3, 0x1.5555555555555p-57}.plus(s.times(q))
	q = double{0.5, 0}.plus(s.times(q))
	e = s.plus(s.times(s).times(q))
	for range halves { // (1+e)^2 - 1
		e = double{2 * e.high, 2 * e.low}.plus(e.times(e))
	}
	return k, e
}

// lnDouble is ln(x) of a positive finite x: what ln64 finds, and what e to the power of that lacks of x.
func lnDouble(x float64) double {
	y := ln64(x)
	k, e := expDouble(double{-y, 0})
	z := math.Ldexp(x, int(k)) // x * e^-y is z * (1+e), which is about 1
	lack := exactSum(z, -1).plus(double{z, 0}.times(e))
	square := float64(lack.high * lack.high)
	return double{y, 0}.plus(lack).plus(double{-float64(0.5 * square), 0})
}

// pow64 is x^y, rounded to nearest: it is computed to about 88 bits. Special cases are those of IEEE 754, as in C.
func pow64(x, y float64) float64 {
	switch {
	case y == 0, x == 1:
		return 1
	case x != x, y != y:
		return math.NaN()
	case y == 1:
		return x
	case y == 2:
		return x * x
	case y == -1:
		return 1 / x
	case y == 0.5 && x > 0:
		return math.Sqrt(x)
	}
	odd := math.Abs(y) < 1<<53 && y == math.Trunc(y) && int64(y)&1 != 0
	switch size := math.Abs(x); {
	case math.IsInf(y, 0):
		return powInf(size, y)
	case size == 0, math.IsInf(x, 0):
		result := math.Inf(1)
		if (size == 0) == (y > 0) {
			result = 0
		}
		if odd {
			return math.Copysign(result, x)
		}
		return result
	case x < 0 && y != math.Trunc(y):
		return math.NaN()
	case x < 0 && odd:
		return -powPositive(size, y)
	default:
		return powPositive(size, y)
	}
}

// powInf is a positive x to an infinite power.
func powInf(x, y float64) float64 {
	switch {
	case x == 1:
		return 1
	case (x > 1) == (y > 0):
		return math.Inf(1)
	}
	return 0
}

// powPositive is x^y for finite x above 0 and finite y.
func powPositive(x, y float64) float64 {
	switch about := float64(y * ln64(x)); {
	case about > 710:
		return math.Inf(1)
	case about < -746:
		return 0
	}
	k, e := expDouble(lnDouble(x).times(double{y, 0}))
	m := double{1, 0}.plus(e)
	return rounded(m, int(k))
}

// rounded is m * 2^k, rounded once. m is from 0.7 to 1.5, and within 2^-88 or so: what lies so near to the middle of
// two numbers is taken for it, which exact powers have, and goes to the even one.
func rounded(m double, k int) float64 {
	const near = 0x1p-86
	bits := math.Float64bits(m.high)
	last := math.Float64frombits(bits+1) - m.high // a unit in the last place
	if m.high == 1 && m.low < 0 {
		last /= 2
	}
	if off := math.Abs(math.Abs(m.low) - last/2); off < near && bits&1 == 1 {
		m.high, m.low = m.high+math.Copysign(last, m.low), 0
	}
	if _, e := math.Frexp(m.high); e-1+k >= -1022 { // it has all bits
		return math.Ldexp(m.high, k)
	}
	// A subnormal result has fewer bits: it counts units of 2^-1074.
	const unit = 1074
	units := math.Ldexp(m.high, k+unit) // exact, as is what follows but for the last sum
	whole := math.Floor(units)
	above := units - whole - 0.5 + math.Ldexp(m.low, k+unit) // the middle of two results
	isMiddle := math.Abs(above) < math.Ldexp(near, k+unit)
	if above > 0 && !isMiddle || isMiddle && math.Mod(whole, 2) == 1 {
		whole++
	}
	return math.Ldexp(whole, -unit)
}
