package format

import "math"

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
