package tensors

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestHalf holds that each number of 16 bits is itself, and that those between two become the nearer one, or the even
// one in the middle.
func TestHalf(t *testing.T) {
	for _, fraction := range []int{10, 7} {
		bias := 1<<(14-fraction) - 1
		wide := func(h uint16) float64 { // of a finite one
			exponent, low := int(h>>fraction), int(h)&(1<<fraction-1)
			if exponent == 0 {
				return math.Ldexp(float64(low), 1-bias-fraction)
			}
			return math.Ldexp(float64(low+1<<fraction), exponent-bias-fraction)
		}
		infinity := half(math.Inf(1), fraction)
		if nan := half(math.NaN(), fraction); infinity != 0x7fff&^(1<<fraction-1) || nan&infinity != infinity || nan == infinity {
			t.Errorf("with %d bits infinity is %#x, and NaN %#x", fraction, infinity, nan)
		}
		for h := range infinity {
			here, next := wide(h), wide(h+1)
			if h+1 == infinity { // where the next number would be
				next = 2*here - wide(h-1)
			}
			middle := (here + next) / 2
			for _, c := range []struct {
				x    float64
				want uint16
			}{
				{here, h},
				{middle, h + h&1},
				{math.Nextafter(middle, 0), h},
				{math.Nextafter(middle, next), h + 1},
				{math.Nextafter(next, 0), h + 1},
			} {
				got, negative := half(c.x, fraction), half(math.Copysign(c.x, -1), fraction)
				if got != c.want || negative != c.want|0x8000 {
					t.Fatalf("%v with %d bits is %#x, and below zero %#x; want %#x", c.x, fraction, got, negative, c.want)
				}
			}
		}
	}
}

// What metadata says of a value is the value.
func TestValuesInMetadata(t *testing.T) {
	float := func(x float64) *pb.Value { return &pb.Value{Kind: &pb.Value_Float{Float: x}} }
	integer := func(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }
	for _, c := range []struct {
		kind pb.Kind
		v    *pb.Value
		text string
		bits uint64
	}{
		{pb.Kind_BOOL, &pb.Value{Kind: &pb.Value_Bool{Bool: true}}, "true", 1},
		{pb.Kind_INT8, integer(-1), "-1", math.MaxUint64},
		{pb.Kind_UINT32, integer(math.MaxUint32), "4294967295", math.MaxUint32},
		{pb.Kind_FLOAT16, float(-0.5), "-0.5", 0xb800},
		{pb.Kind_BFLOAT16, float(0x1p127), "1.7014118346046923e+38", 0x7f00},
		{pb.Kind_FLOAT32, float(math.Inf(-1)), "-Inf", 0xff800000},
		{pb.Kind_FLOAT64, float(0.1), "0.1", math.Float64bits(0.1)},
	} {
		text := FormatValue(c.v)
		v, err := ParseValue(text, c.kind)
		if text != c.text || err != nil || !proto.Equal(v, c.v) || Bits(v, c.kind) != c.bits {
			t.Errorf("%v of %v: %s, %v, %v, %#x", c.v, c.kind, text, v, err, Bits(v, c.kind))
		}
	}
	for text, kind := range map[string]pb.Kind{
		"": pb.Kind_FLOAT32, "1.5": pb.Kind_INT8, "128": pb.Kind_INT8, "-1": pb.Kind_UINT8, "2": pb.Kind_BOOL,
	} {
		if v, err := ParseValue(text, kind); err == nil {
			t.Errorf("%q as %v is %v", text, kind, v)
		}
	}
}
