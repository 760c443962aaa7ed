package format

import "math"

// ToFloat16 is the half-precision float that is nearest to a number; of two that are as near, the even one.
func ToFloat16(f float64) uint16 {
	sign, abs := uint16(0), math.Abs(f)
	if math.Signbit(f) {
		sign = 1 << 15
	}
	const most = 65504 // of those that are finite
	switch {
	case f != f:
		return sign | 0x7e00
	case abs >= most+16:
		return sign | 0x7c00
	case abs < 0x1p-14: // subnormal, or the least normal one, which is its neighbour
		return sign | uint16(math.RoundToEven(abs*0x1p24))
	}
	frac, exp := math.Frexp(abs) // frac is from 0.5 to 1, of which 11 bits stay
	return sign | (uint16(exp+14)<<10 + uint16(math.RoundToEven(frac*0x1p11)) - 0x400)
}

// Float16 widens a half-precision float. Arrow's own conversion loses subnormal numbers.
func Float16(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&0x3ff
	switch exp {
	case 0: // zero or subnormal: frac times 2^-24, exactly
		return math.Float32frombits(math.Float32bits(float32(frac)*0x1p-24) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
