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
		Exact: "ln(1+x): -inf for -1, NaN below, signed zeros kept. float64 for float64; others are converted " +
			"to float32 first and give float32",
		Maps:    true,
		Inputs:  scalarOrListOfNumbers,
		Output:  floatLikeInput,
		Example: "{op: log1p, in: int_*, out: \"{}_log\"}",
		Infer:   inferFloat,
		New: func(_ Params, in []spec.Type) (Kernel, error) {
			switch in[0].Kind {
			case pb.Kind_INT32:
				return Elementwise(logsOfInts[int32]), nil
			case pb.Kind_INT64:
				return Elementwise(logsOfInts[int64]), nil
			case pb.Kind_FLOAT64:
				return Elementwise(logs64), nil
			}
			return Elementwise(logs32), nil
		},
	}
}

func logsOfInts[S int32 | int64](dst []float32, src []S) {
	convert(dst, src)
	logs32(dst, dst)
}

// logsPlain is what logs32 does, on any CPU.
func logsPlain(dst, src []float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = log1p32(v)
	}
}

func logs64(dst, src []float64) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = log1p64(v)
	}
}

// Both logarithms write 1+x as 2^k * z with z in [0.6875, 1.375), take a number c near z from logCells, and add
// k*ln(2), ln(c) and ln(1+r) for r = (z-c)/c, which is at most 2^-7, by the series r - r^2/2 + r^3/3 - ... All
// arithmetic is float64; the conversions around products keep compilers from fusing them with sums, so that results
// are the same everywhere.
const (
	cellBase = 0x3fe6 << 48 // bits of 0.6875
	ln2      = 0x1.62e42fefa39efp-1
	ln2Hi    = 0x1.62e42fefa38p-1 // a multiple of 2^-42
	ln2Lo    = 0x1.ef35793c7673p-45
)

// log1p32 is ln(1+x), rounded to nearest for every x: all of them were compared with 200 bits of precision.
func log1p32(x float32) float32 {
	b := math.Float32bits(x)
	sign := b & (1 << 31)
	abs := b ^ sign
	const tiny, inf = 0x31800000, 0x7f800000 // 2^-28, below which 1+x is not exact in float64, and +Inf
	if abs-1 < tiny-1 || abs >= inf || !(x > -1) {
		return edge32(x)
	}
	y := math.Float64bits(1 + float64(x))
	shifted := y - cellBase
	k := float64(int64(shifted) >> 52)
	z := math.Float64frombits(y - shifted&^(1<<52-1))
	cell := &logCells[shifted>>45&127]
	r := float64((z - cell.c) * cell.inverse)
	r2 := float64(r * r)
	r4 := float64(r2 * r2)
	series := (float64(r*(1./3)) - 1./2) +
		float64(r2*(float64(r*(1./5))-1./4)) +
		float64(r4*((float64(r*(1./7))-1./6)-float64(r2*(1./8))))
	sum := (float64(k*ln2) + cell.log) + (r + float64(r2*series))
	const half = 1 << 28 // of a float32's last place, in the last places of a float64
	if math.Float64bits(sum)&(1<<29-1)-(half-64) < 128 {
		return hard32(x)
	}
	return math.Float32frombits(math.Float32bits(float32(sum)) | sign) // which log1p(-0) = -0 needs
}

// hard32 is log1p32 of what lies so close to the middle of two float32 that the last bits decide. It rounds to odd
// before it rounds to nearest.
func hard32(x float32) float32 {
	head, tail := logParts(float64(x))
	sum := head + tail
	left := tail - (sum - head)
	bits := math.Float64bits(sum)
	switch {
	case left == 0 || bits&1 == 1:
	case (left > 0) == (sum > 0):
		bits++
	default:
		bits--
	}
	return float32(math.Float64frombits(bits))
}

// edge32 is log1p32 of what is tiny, infinite, not a number, or not above -1.
func edge32(x float32) float32 {
	switch {
	case x > 1: // +Inf
		return x
	case x > -1: // the series' third term is far below float64's precision
		wide := float64(x)
		return float32(wide - float64(0.5*float64(wide*wide)))
	case x == -1:
		return float32(math.Inf(-1))
	}
	return float32(math.NaN())
}

// log1p64 is ln(1+x), off by less than 1 unit in the last place.
func log1p64(x float64) float64 {
	switch {
	case x == -1:
		return math.Inf(-1)
	case !(x > -1):
		return math.NaN()
	case x > math.MaxFloat64:
		return x
	}
	head, tail := logParts(x)
	return head + tail
}

// logParts is ln(1+x) for finite x above -1, as the sum of a number and a correction far below it.
func logParts(x float64) (head, tail float64) {
	if x > -0x1p-8 && x < 0x1p-7 {
		return x, float64(float64(x*x) * logSeries(x))
	}
	sum := 1 + x
	lost := 1 - (sum - x) // the rounding error of sum
	if x < 1 {
		lost = x - (sum - 1)
	}
	y := math.Float64bits(sum)
	shifted := y - cellBase
	k := float64(int64(shifted) >> 52)
	z := math.Float64frombits(y - shifted&^(1<<52-1))
	cell := &logCells[shifted>>45&127]
	r := (z - cell.c) / cell.c
	high := float64(k*ln2Hi) + cell.hi // exact; not 0, since 1+x is not near 1
	head = high + r
	tail = r - (head - high)
	return head, tail + (float64(k*ln2Lo) + cell.lo + lost/sum + float64(float64(r*r)*logSeries(r)))
}

// logSeries is (ln(1+r) - r) / r^2.
func logSeries(r float64) float64 {
	r2 := float64(r * r)
	r4 := float64(r2 * r2)
	return (float64(r*(1./3)) - 1./2) +
		float64(r2*(float64(r*(1./5))-1./4)) +
		float64(r4*((float64(r*(1./7))-1./6)+float64(r2*(float64(r*(1./9))-1./8))))
}
