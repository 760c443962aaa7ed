package reference

import (
	"math"
	"math/big"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// logOnePlus is ln(1+x): of float64 in float64, of all else, rounded to float32, in float32.
func logOnePlus(_ parameters, in []spec.Type) (operation, error) {
	if in[0].Kind == pb.Kind_FLOAT64 {
		return eachFloat(in[0], newLogTable().log), nil
	}
	return toFloat32(in[0], log32)
}

// log32 is the exact logarithm, rounded to nearest. The math package is right to much better than a float32, except
// where the last bits of a float64 decide between two of them.
func log32(x float32) float32 {
	y := math.Log1p(float64(x))
	const slack = 0x1p-50
	low, high := float32(float64(y*(1-slack))), float32(float64(y*(1+slack)))
	if low == high || y != y {
		return float32(y)
	}
	one := new(big.Float).SetPrec(precision).SetInt64(1)
	exact, _ := exactLog(one.Add(one, big.NewFloat(float64(x)))).Float32()
	return exact
}

// precision of exact logarithms, in bits.
const precision = 240

// exactLog is ln(x) for x > 0, as k*ln(2) + ln(z) with z in [0.5, 1).
func exactLog(x *big.Float) *big.Float {
	z := new(big.Float).SetPrec(precision)
	k := x.MantExp(z)
	two := new(big.Float).SetPrec(precision).SetInt64(2)
	sum := logSeries(two)
	sum.Mul(sum, new(big.Float).SetPrec(precision).SetInt64(int64(k)))
	return sum.Add(sum, logSeries(z))
}

// logSeries is ln(x) = 2*(t + t^3/3 + t^5/5 + ...) with t = (x-1)/(x+1), for x from 0.5 to 2.
func logSeries(x *big.Float) *big.Float {
	number := func(n int64) *big.Float { return new(big.Float).SetPrec(precision).SetInt64(n) }
	t := number(0).Quo(number(0).Sub(x, number(1)), number(0).Add(x, number(1)))
	square := number(0).Mul(t, t)
	sum, power := number(0), number(2)
	power.Mul(power, t)
	for n := int64(1); power.Sign() != 0 &&
		(sum.Sign() == 0 || power.MantExp(nil) > sum.MantExp(nil)-precision); n += 2 {
		sum.Add(sum, number(0).Quo(power, number(n)))
		power.Mul(power, square)
	}
	return sum
}

// logTable is for the float64 logarithm, which is not exact and so has to be computed in the one way that the ops'
// documentation gives: 1+x is 2^k * z with z in [0.6875, 1.375), c the middle of z's cell, r = (z-c)/c, and the result
// k*ln(2) + ln(c) + ln(1+r), in that order of sums.
type logTable [128]struct {
	c, high, low float64 // ln(c) = high + low, high a multiple of 2^-42
}

const (
	minZ      = 0.6875
	belowOne  = 80 // cells of 2^-8 below 1; those above are of 2^-7
	ln2High   = 0x1.62e42fefa38p-1
	ln2Low    = 0x1.ef35793c7673p-45
	fineScale = 1 << 42
)

func newLogTable() *logTable {
	t := new(logTable)
	for i := range t {
		switch {
		case i == belowOne-1 || i == belowOne:
			t[i].c = 1
			continue
		case i < belowOne:
			t[i].c = minZ + float64((float64(i)+0.5)/256)
		default:
			t[i].c = 1 + float64((float64(i-belowOne)+0.5)/128)
		}
		exact := exactLog(new(big.Float).SetPrec(precision).SetFloat64(t[i].c))
		wide, _ := exact.Float64()
		t[i].high = math.RoundToEven(wide*fineScale) / fineScale
		t[i].low, _ = exact.Sub(exact, big.NewFloat(t[i].high)).Float64()
	}
	return t
}

func (t *logTable) log(x float64) float64 {
	switch {
	case x == -1:
		return math.Inf(-1)
	case !(x > -1):
		return math.NaN()
	case math.IsInf(x, 1):
		return x
	case x > -0x1p-8 && x < 0x1p-7:
		return x + float64(float64(x*x)*logTail(x))
	}
	sum := 1 + x
	lost := 1 - (sum - x) // what rounding took from sum
	if x < 1 {
		lost = x - (sum - 1)
	}
	return t.parts(sum, lost)
}

// ln is ln(x), the result of the same steps for x itself.
func (t *logTable) ln(x float64) float64 {
	switch {
	case x == 0:
		return math.Inf(-1)
	case !(x > 0):
		return math.NaN()
	case math.IsInf(x, 1):
		return x
	}
	return t.parts(x, 0)
}

// parts is ln(sum + lost).
func (t *logTable) parts(sum, lost float64) float64 {
	z, k := math.Frexp(sum) // in [0.5, 1)
	if z < minZ {
		z, k = z*2, k-1
	}
	cell := t[cellOf(z)]
	r := (z - cell.c) / cell.c
	high := float64(float64(k)*ln2High) + cell.high
	head := high + r
	tail := r - (head - high)
	return head + (tail + (float64(float64(k)*ln2Low) + cell.low + lost/sum + float64(float64(r*r)*logTail(r))))
}

func cellOf(z float64) int {
	if z < 1 {
		return int((z - minZ) * 256)
	}
	return belowOne + int((z-1)*128)
}

// logTail is (ln(1+r) - r) / r^2 to the term in r^7.
func logTail(r float64) float64 {
	r2 := float64(r * r)
	r4 := float64(r2 * r2)
	return (float64(r*(1./3)) - 1./2) +
		float64(r2*(float64(r*(1./5))-1./4)) +
		float64(r4*((float64(r*(1./7))-1./6)+float64(r2*(float64(r*(1./9))-1./8))))
}
