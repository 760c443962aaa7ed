package reference

import (
	"encoding/binary"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// wrapped is what is left of an integer in a kind's bits.
func wrapped(n int64, k pb.Kind) int64 {
	switch k {
	case pb.Kind_INT8:
		return int64(int8(n))
	case pb.Kind_INT16:
		return int64(int16(n))
	case pb.Kind_INT32:
		return int64(int32(n))
	case pb.Kind_UINT8:
		return int64(uint8(n))
	case pb.Kind_UINT16:
		return int64(uint16(n))
	case pb.Kind_UINT32:
		return int64(uint32(n))
	}
	return n
}

// nearest is the value of a kind of floats that is nearest to x; of two, the one that ends in a zero bit.
func nearest(x float64, k pb.Kind) float64 {
	switch k {
	case pb.Kind_FLOAT16:
		return rounded(x, 11, -14, 15)
	case pb.Kind_BFLOAT16:
		return rounded(x, 8, -126, 127)
	case pb.Kind_FLOAT32:
		return float64(float32(x))
	}
	return x
}

// rounded keeps so many binary digits of a number of an exponent from least to most; below, all numbers are as far
// apart as at the least, and above they are infinite.
func rounded(x float64, digits, least, most int) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	_, exponent := math.Frexp(x) // from 0.5 to 1
	step := math.Ldexp(1, max(exponent-1, least)-digits+1)
	if x = math.RoundToEven(x/step) * step; math.Abs(x) >= math.Ldexp(1, most+1) {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return x
}

// appendRaw adds the values of a kind that lie in bytes, little endian, to a cell.
func (c *cell) appendRaw(b []byte, k pb.Kind) {
	for ; len(b) > 0; b = b[spec.Width(k):] {
		switch k {
		case pb.Kind_BOOL, pb.Kind_UINT8, pb.Kind_INT8:
			c.ints = append(c.ints, wrapped(int64(b[0]), k))
		case pb.Kind_INT16, pb.Kind_UINT16:
			c.ints = append(c.ints, wrapped(int64(binary.LittleEndian.Uint16(b)), k))
		case pb.Kind_INT32, pb.Kind_UINT32:
			c.ints = append(c.ints, wrapped(int64(binary.LittleEndian.Uint32(b)), k))
		case pb.Kind_INT64:
			c.ints = append(c.ints, int64(binary.LittleEndian.Uint64(b)))
		case pb.Kind_FLOAT16:
			c.floats = append(c.floats, float16(binary.LittleEndian.Uint16(b)))
		case pb.Kind_BFLOAT16:
			c.floats = append(c.floats, bfloat16(binary.LittleEndian.Uint16(b)))
		case pb.Kind_FLOAT32:
			c.floats = append(c.floats, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		case pb.Kind_FLOAT64:
			c.floats = append(c.floats, math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	}
}

// bfloat16 is the value of the upper half of a float32.
func bfloat16(bits uint16) float64 { return float64(math.Float32frombits(uint32(bits) << 16)) }
