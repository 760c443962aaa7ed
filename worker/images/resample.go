package images

import (
	"encoding/binary"
	"math"
)

// precision is the bits of fraction of weights: as Pillow has them, so that the sum for a byte fits 32 bits.
const precision = 22

// axis says of which values along one side of a picture those of the resized one are made: value i is the sum of
// count[i] values from first[i] on, weighted by weights[i*taps:].
type axis struct {
	first, count []int32
	weights      []uint32
	taps         int
	floats       []float64
}

// set prepares for resizing `in` values to `out`, of which those from..to are wanted. The weights are those of a triangle as wide as
// two values of the coarser side: bilinear interpolation where the picture grows, an average where it shrinks. Conversions
// keep compilers from fusing products and sums.
func (a *axis) set(in, out, from, to int) {
	scale := float64(in) / float64(out)
	support := math.Max(scale, 1)
	a.taps = int(math.Ceil(support))*2 + 1
	n := to - from
	a.first, a.count = grow(a.first, n), grow(a.count, n)
	a.weights, a.floats = grow(a.weights, n*a.taps), grow(a.floats, a.taps)
	for i := range n {
		center := float64((float64(from+i) + 0.5) * scale)
		low := max(0, int(center-support+0.5))
		count := min(in, int(center+support+0.5)) - low
		sum := 0.0
		for k := range count {
			distance := math.Abs(float64((float64(k+low) - center + 0.5) * (1 / support)))
			a.floats[k] = max(0, 1-distance)
			sum += a.floats[k]
		}
		weights := a.weights[i*a.taps:][:a.taps]
		clear(weights)
		for k, w := range a.floats[:count] {
			if sum != 0 {
				w /= sum
			}
			weights[k] = uint32(0.5 + float64(w*(1<<precision)))
		}
		a.first[i], a.count[i] = int32(low), int32(count)
	}
}

// span is the values that the wanted ones are made of.
func (a *axis) span() (from, to int) {
	last := len(a.first) - 1
	return int(a.first[0]), int(a.first[last] + a.count[last])
}

const half = 1 << (precision - 1)

// across3 resizes a row of three channels. Red and blue are summed in the halves of one number.
func (a *axis) across3(dst, row []byte) {
	for i, first := range a.first {
		weights := a.weights[i*a.taps:][:a.count[i]]
		p := row[3*int(first):][:3*len(weights)]
		rb, g := uint64(half|half<<32), uint64(half)
		for _, w := range weights {
			q := (*[3]byte)(p)
			rb += (uint64(q[0]) | uint64(q[2])<<32) * uint64(w)
			g += uint64(q[1]) * uint64(w)
			p = p[3:]
		}
		q := (*[3]byte)(dst[3*i:])
		q[0], q[1], q[2] = byte(uint32(rb)>>precision), byte(g>>precision), byte(rb>>(32+precision))
	}
}

// across1 resizes a row of one channel.
func (a *axis) across1(dst, row []byte) {
	for i, first := range a.first {
		sum := uint32(half)
		weights := a.weights[i*a.taps:][:a.count[i]]
		for k, v := range row[first:][:len(weights)] {
			sum += uint32(v) * weights[k]
		}
		dst[i] = byte(sum >> precision)
	}
}

// down makes value i of rows that follow each other, of equal lengths: each dst byte of those above each other. Eight bytes are summed at a
// time, two in the halves of one number.
func (a *axis) down(dst, rows []byte, i, skipped int) {
	width := len(dst)
	weights := a.weights[i*a.taps:][:a.count[i]]
	rows = rows[(int(a.first[i])-skipped)*width:][:len(weights)*width]
	x := 0
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
