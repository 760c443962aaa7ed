package transform

import "math"

// ln64 is ln(x), off by less than 1 unit in the last place: logParts of x itself instead of 1+x.
func ln64(x float64) float64 {
	switch {
	case x == 0:
		return math.Inf(-1)
	case !(x > 0):
		return math.NaN()
	case x > math.MaxFloat64:
		return x
	}
	scaled := 0.0
	if x < 0x1p-1022 { // the exponent's bits do not tell that of a subnormal number
		x *= 0x1p54
		scaled = 54
	}
	y := math.Float64bits(x)
	shifted := y - cellBase
	k := float64(int64(shifted)>>52) - scaled
	z := math.Float64frombits(y - shifted&^(1<<52-1))
	cell := &logCells[shifted>>45&127]
	r := (z - cell.c) / cell.c
	high := float64(k*ln2Hi) + cell.hi // exact
	head := high + r
	tail := r - (head - high)
	return head + (tail + (float64(k*ln2Lo) + cell.lo + float64(float64(r*r)*logSeries(r))))
}

// expm1 is e^y - 1, off by less than 2 units in the last place. It writes y as k*ln(2) + r with r at most half of
// ln(2), takes e^r - 1 from its series, and scales by 2^k.
func expm1(y float64) float64 {
	const overflow = 0x1.62e42fefa39efp+9
	switch {
	case y > overflow:
		return math.Inf(1)
	case y < -50: // 1 less than what is far below 1's last place
		return -1
	case y == 0, y != y: // -0, too
		return y
	}
	k, e := expParts(y)
	switch k {
	case 0:
		return e
	case 1024: // 2^1024 is no float64
		return float64((1+e)*0x1p1023) * 2
	}
	scale := math.Float64frombits(uint64(int64(k)+1023) << 52)
	return float64(scale*e) + (scale - 1)
}

// expParts is e^y as 2^k * (1 + e).
func expParts(y float64) (k, e float64) {
	const perLn2 = 0x1.71547652b82fep+0 // 1/ln(2)
	k = math.Floor(float64(y*perLn2) + 0.5)
	high := y - float64(k*ln2Hi) // exact
	low := float64(k * ln2Lo)
	r := high - low
	return k, r + (expSeries(r) + ((high - r) - low))
}

// expSeries is e^r - 1 - r for |r| up to ln(2)/2: r^2/2! + r^3/3! + ... + r^14/14!.
func expSeries(r float64) float64 {
	r2 := float64(r * r)
	r4 := float64(r2 * r2)
	r8 := float64(r4 * r4)
	first := (1./2 + float64(r*(1./6))) + float64(r2*(1./24+float64(r*(1./120))))
	second := (1./720 + float64(r*(1./5040))) + float64(r2*(1./40320+float64(r*(1./362880))))
	third := (1./3628800 + float64(r*(1./39916800))) + float64(r2*(1./479001600+float64(r*(1./6227020800))))
	last := float64(r4 * (1. / 87178291200))
	return float64(r2 * ((first + float64(r4*second)) + float64(r8*(third+last))))
}
