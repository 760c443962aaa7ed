package tensors

import (
	"math"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// FormatValue writes a scalar as metadata has it: a number, false or true, or NaN, +Inf and -Inf.
func FormatValue(v *pb.Value) string {
	switch v := v.GetKind().(type) {
	case *pb.Value_Int:
		return strconv.FormatInt(v.Int, 10)
	case *pb.Value_Float:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	case *pb.Value_Bool:
		return strconv.FormatBool(v.Bool)
	}
	return "0"
}

// ParseValue reads a scalar of a kind that FormatValue wrote.
func ParseValue(text string, kind pb.Kind) (*pb.Value, error) {
	bits := 8 * spec.Width(kind)
	switch kind {
	case pb.Kind_BOOL:
		b, err := strconv.ParseBool(text)
		return &pb.Value{Kind: &pb.Value_Bool{Bool: b}}, err
	case pb.Kind_INT8, pb.Kind_INT16, pb.Kind_INT32, pb.Kind_INT64:
		n, err := strconv.ParseInt(text, 10, bits)
		return &pb.Value{Kind: &pb.Value_Int{Int: n}}, err
	case pb.Kind_UINT8, pb.Kind_UINT16, pb.Kind_UINT32:
		n, err := strconv.ParseUint(text, 10, bits)
		return &pb.Value{Kind: &pb.Value_Int{Int: int64(n)}}, err
	}
	x, err := strconv.ParseFloat(text, 64)
	return &pb.Value{Kind: &pb.Value_Float{Float: x}}, err
}

// Bits are those of a scalar as a kind, of floats those of the nearest, or the even one of two.
func Bits(v *pb.Value, kind pb.Kind) uint64 {
	switch x := v.GetKind().(type) {
	case *pb.Value_Bool:
		if x.Bool {
			return 1
		}
	case *pb.Value_Int:
		return uint64(x.Int)
	case *pb.Value_Float:
		switch kind {
		case pb.Kind_FLOAT16:
			return uint64(half(x.Float, 10))
		case pb.Kind_BFLOAT16:
			return uint64(half(x.Float, 7))
		case pb.Kind_FLOAT32:
			return uint64(math.Float32bits(float32(x.Float)))
		}
		return math.Float64bits(x.Float)
	}
	return 0
}

// half is the float of 16 bits, so many of them its fraction's, that is nearest to x, or the even one of two.
func half(x float64, fraction int) uint16 {
	sign, infinity := uint16(math.Float64bits(x)>>48)&0x8000, uint16(0x7fff)&^(1<<fraction-1)
	switch {
	case x == 0:
		return sign
	case math.IsNaN(x):
		return sign | infinity | 1<<(fraction-1)
	case math.IsInf(x, 0):
		return sign | infinity
	}
	bias := 1<<(14-fraction) - 1
	_, exponent := math.Frexp(x)
	exponent = max(exponent-1, 1-bias) // subnormal numbers have that of the least normal one
	last := math.RoundToEven(math.Ldexp(math.Abs(x), fraction-exponent))
	// The bit before the fraction, which only normal numbers have, counts the exponent up, and so does a carry.
	bits := int(last) + (exponent+bias-1)<<fraction
	return sign | uint16(min(bits, int(infinity)))
}
