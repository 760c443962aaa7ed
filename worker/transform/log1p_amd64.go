package transform

import (
	"math"
	"math/bits"

	"github.com/penstock-ml/penstock/internal/simd"
)

// log1p32AVX512 is log1p32 of the first values of n, 16 by 16, and stops at the first 16 of which it does not tell all:
// they are those from at on, without those whose bits in hard are set.
//
// Where log1p32 computes in float64, this computes in sums of two float32: high, and a low that is at most 2^-12 of it
// or, near 0, of x. Their sum is rounded twice, with low a little more and a little less than it is. If that gives the
// same number then it is the nearest, which is what log1p32 returns: for all 2^32 of them, which were compared.
//
//go:noescape
func log1p32AVX512(dst, src *float32, n int, cells *floatCells) (at int, hard uint32)

// log1p32AVX2 does so 8 by 8 with a multiple of 8 values, above 0.
//
//go:noescape
func log1p32AVX2(dst, src *float32, n int, cells *floatCells) (at int, hard uint32)

// logs32 is log1p32 of values; dst and src may be the same slice.
func logs32(dst, src []float32) {
	dst = dst[:len(src)]
	for simdLevel >= simd.AVX512 && len(src) > 0 {
		at, hard := log1p32AVX512(&dst[0], &src[0], len(src), cellsOfFloats)
		logsAt(dst, src, at, hard)
		done := min(at+16, len(src))
		dst, src = dst[done:], src[done:]
	}
	for simdLevel >= simd.AVX2 && len(src) >= 8 {
		n := len(src) &^ 7
		at, hard := log1p32AVX2(&dst[0], &src[0], n, cellsOfFloats)
		logsAt(dst, src, at, hard)
		done := min(at+8, n)
		dst, src = dst[done:], src[done:]
	}
	logsPlain(dst, src)
}

// logsAt is log1p32 of the values from at on that hard has a bit for. Without any, at may be behind the last value.
func logsAt(dst, src []float32, at int, hard uint32) {
	for ; hard != 0; hard &= hard - 1 {
		i := at + bits.TrailingZeros32(hard)
		dst[i] = log1p32(src[i])
	}
}

// floatCells are to float32 what logCells are to float64: ln(1/inverse) = head + tail. They divide
// [floatBase, 2*floatBase) by the leading bits of what lies above floatBase, such that one of them has 1 within and the
// inverse 1. Inverses have so few bits that (1+x)*inverse - 1 is exact, as are sums of heads and multiples of ln(2)'s.
type floatCells struct{ inverse, head, tail [32]float32 }

var cellsOfFloats = func() *floatCells { //nolint:gochecknoglobals // constants: nothing writes to them
	const floatBase, width = 0x3f320000, 1 << 18 // 0.6953125, in bits
	cells := new(floatCells)
	for i := range cells.inverse {
		from := math.Float32frombits(floatBase + uint32(i)*width)
		to := math.Float32frombits(floatBase + uint32(i+1)*width)
		inverse := math.Round(64/float64((from+to)/2)) / 64
		log := -log1p64(inverse - 1)
		head := math.Round(log*(1<<17)) / (1 << 17)
		cells.inverse[i], cells.head[i], cells.tail[i] = float32(inverse), float32(head), float32(log-head)
	}
	return cells
}()
