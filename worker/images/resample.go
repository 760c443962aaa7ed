package images

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/internal/simd"
)

// precision is the bits of fraction of weights: as Pillow has them, so that the sum for a byte fits 32 bits.
const precision = 22

const (
	// tapsAtOnce is how many weights the loops take at a time: each value has a multiple of it, those behind its count
	// 0.
	tapsAtOnce = 4
	// rowsAtOnce is how many rows acrossRows takes.
	rowsAtOnce = 4
	// pixelBytes is how many bytes a pixel of a row of colours has: red, green, blue and one that means nothing.
	pixelBytes = 4
	// slack is how many bytes behind a result loops may write.
	slack = 8
)

// axis says of which values along one side of a picture those of the resized one are made: value i is the sum of
// count[i] values from first[i] on, weighted by weights[i*taps:].
type axis struct {
	first, count []int32
	weights      []uint32
	// of the weights, where simdLevel >= simd.VNNI needs them: of four weights the lowest ones, ..., the highest ones
	digits []uint32
	taps   int
	most   int // of the counts, rounded up to a multiple of tapsAtOnce
	end    int // first + most of the last one
	floats []float64
}

// set prepares for resizing `in` values to `out`, of which those from..to are wanted. The weights are those of a
// triangle as wide as two values of the coarser side: bilinear interpolation where the picture grows, an average where
// it shrinks. Conversions keep compilers from fusing products and sums.
func (a *axis) set(in, out, from, to int) {
	scale := float64(in) / float64(out)
	support := max(scale, 1)
	narrower := 1 / support
	bound := int(math.Ceil(support))*2 + 1
	a.taps, a.most = roundUp(bound, tapsAtOnce), 0
	n := to - from
	a.first, a.count = grow(a.first, n), grow(a.count, n)
	a.weights, a.floats = grow(a.weights, n*a.taps), grow(a.floats, bound)
	for i := range n {
		center := float64((float64(from+i) + 0.5) * scale)
		low := max(0, int(center-support+0.5))
		count := min(in, int(center+support+0.5)) - low
		floats, sum := a.floats[:count], 0.0
		for k := range floats {
			floats[k] = max(0, 1-math.Abs(float64((float64(k+low)-center+0.5)*narrower)))
			sum += floats[k]
		}
		weights := a.weights[i*a.taps:][:a.taps]
		clear(weights[count:])
		for k, w := range floats {
			if sum != 0 {
				w /= sum
			}
			weights[k] = uint32(0.5 + float64(w*(1<<precision)))
		}
		a.first[i], a.count[i] = int32(low), int32(count)
		a.most = max(a.most, roundUp(count, tapsAtOnce))
	}
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// span is the values that the wanted ones are made of.
func (a *axis) span() (from, to int) {
	last := len(a.first) - 1
	return int(a.first[0]), int(a.first[last] + a.count[last])
}

// placed makes first count from a later value on, and reverses the order of what is made if mirrored.
func (a *axis) placed(from int, mirrored bool) {
	for i := range a.first {
		a.first[i] -= int32(from)
	}
	a.end = int(a.first[len(a.first)-1]) + a.most
	if mirrored {
		a.reverse()
	}
	if simdLevel >= simd.VNNI {
		a.setDigits()
	}
}

func (a *axis) reverse() {
	slices.Reverse(a.first)
	slices.Reverse(a.count)
	for i, j := 0, len(a.first)-1; i < j; i, j = i+1, j-1 {
		one, other := a.weights[i*a.taps:][:a.taps], a.weights[j*a.taps:][:a.taps]
		for k := range one {
			one[k], other[k] = other[k], one[k]
		}
	}
}

// setDigits makes three signed bytes of each weight: it is what they are times 1, 2^8 and 2^16.
func (a *axis) setDigits() {
	a.digits = grow(a.digits, len(a.weights))
	for i := 0; i < len(a.weights); i += tapsAtOnce {
		const middle, low, second, third = 0x808080, 0xff, 0xff00, 0xff0000
		from, to := (*[tapsAtOnce]uint32)(a.weights[i:]), (*[tapsAtOnce]uint32)(a.digits[i:])
		w0, w1, w2, w3 := (from[0]+middle)^middle, (from[1]+middle)^middle, (from[2]+middle)^middle,
			(from[3]+middle)^middle
		to[0] = w0&low | w1&low<<8 | w2&low<<16 | w3<<24
		to[1] = w0&second>>8 | w1&second | w2&second<<8 | w3&second<<16
		to[2] = w0&third>>16 | w1&third>>8 | w2&third | w3&third<<8
	}
}

const half = 1 << (precision - 1)

// acrossColoursPlain makes those of a row of pixels from number i on, three bytes each. Red and blue are summed in the
// halves of one number.
func (a *axis) acrossColoursPlain(dst, row []byte, i int) {
	for ; i < len(a.first); i++ {
		weights := a.weights[i*a.taps:][:a.count[i]]
		p := row[pixelBytes*int(a.first[i]):][:pixelBytes*len(weights)]
		rb, g := uint64(half|half<<32), uint64(half)
		for _, w := range weights {
			q := binary.LittleEndian.Uint32(p)
			rb += (uint64(q&0xff) | uint64(q&0xff0000)<<16) * uint64(w)
			g += uint64(q>>8&0xff) * uint64(w)
			p = p[pixelBytes:]
		}
		q := (*[3]byte)(dst[3*i:])
		q[0], q[1], q[2] = byte(uint32(rb)>>precision), byte(g>>precision), byte(rb>>(32+precision))
	}
}

// acrossEach is acrossRows, one row after the other.
func (a *axis) acrossEach(dst, rows []byte) {
	short, long := 3*len(a.first), len(rows)/rowsAtOnce
	for k := range rowsAtOnce {
		a.acrossColours(dst[k*short:][:short+slack], rows[k*long:][:long])
	}
}

// acrossGray resizes a row of one channel.
func (a *axis) acrossGray(dst, row []byte) {
	for i, first := range a.first {
		sum := uint32(half)
		weights := a.weights[i*a.taps:][:a.count[i]]
		for k, v := range row[first:][:len(weights)] {
			sum += uint32(v) * weights[k]
		}
		dst[i] = byte(sum >> precision)
	}
}

// downPlain makes value i of rows that follow each other, of equal lengths: each dst byte, from number x on, of those
// above each other. Eight bytes are summed at a time, two in the halves of one number.
func (a *axis) downPlain(dst, rows []byte, i, x int) {
	width := len(dst)
	weights := a.weights[i*a.taps:][:a.count[i]]
	rows = rows[int(a.first[i])*width:][:len(weights)*width]
	for ; x+8 <= width; x += 8 {
		const low, start = 0x000000ff000000ff, uint64(half | half<<32)
		s0, s1, s2, s3 := start, start, start, start
		column := rows[x:]
		for k, w := range weights {
			v, w := binary.LittleEndian.Uint64(column[k*width:]), uint64(w)
			s0 += v & low * w
			s1 += v >> 8 & low * w
			s2 += v >> 16 & low * w
			s3 += v >> 24 & low * w
		}
		v := s0>>precision&low | s1>>precision&low<<8 | s2>>precision&low<<16 | s3>>precision&low<<24
		binary.LittleEndian.PutUint64(dst[x:], v)
	}
	for ; x < width; x++ {
		sum := uint32(half)
		for k, w := range weights {
			sum += uint32(rows[k*width+x]) * w
		}
		dst[x] = byte(sum >> precision)
	}
}

// grow returns n values on s's memory where that is large enough, with unspecified contents.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/8)
	}
	return s[:n]
}
