package columns

import (
	"encoding/binary"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
)

// conversion32 is how values in PLAIN layout become those of a kind of 32 bits; nil: not at all.
func conversion32(s shape) func(dst []uint32, src []byte) {
	switch {
	case s.physical == footer.Int32 && s.kind == pb.Kind_INT32 && !s.logical.Decimal,
		s.physical == footer.Float && s.kind == pb.Kind_FLOAT32:
		return func(dst []uint32, src []byte) { copy(bytesOf(dst), src) }
	case s.isHalf() && s.kind == pb.Kind_FLOAT32:
		return func(dst []uint32, src []byte) {
			for i := range dst {
				dst[i] = math.Float32bits(half(binary.LittleEndian.Uint16(src[i*2:])))
			}
		}
	}
	return nil
}

// conversion64 is the same for 64 bits.
func conversion64(s shape) func(dst []uint64, src []byte) {
	if s.kind == pb.Kind_FLOAT64 {
		return conversionFloat64(s)
	}
	switch {
	case s.logical.Decimal:
		return nil
	case s.physical == footer.Int64:
		return func(dst []uint64, src []byte) { copy(bytesOf(dst), src) }
	case s.physical == footer.Int32 && s.logical.Unsigned:
		return func(dst []uint64, src []byte) {
			for i := range dst {
				dst[i] = uint64(binary.LittleEndian.Uint32(src[i*4:]))
			}
		}
	case s.physical == footer.Int32:
		return func(dst []uint64, src []byte) {
			for i := range dst {
				dst[i] = uint64(int32(binary.LittleEndian.Uint32(src[i*4:])))
			}
		}
	case s.physical == footer.Int96:
		return func(dst []uint64, src []byte) {
			for i := range dst {
				dst[i] = uint64(int96(src[i*12:]))
			}
		}
	}
	return nil
}

func conversionFloat64(s shape) func(dst []uint64, src []byte) {
	var value func(src []byte) float64
	scale := math.Pow10(s.logical.Scale)
	switch {
	case s.physical == footer.Double:
		return func(dst []uint64, src []byte) { copy(bytesOf(dst), src) }
	case s.physical == footer.Float:
		value = func(src []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(src))) }
	case s.isHalf():
		value = func(src []byte) float64 { return float64(half(binary.LittleEndian.Uint16(src))) }
	case !s.logical.Decimal:
		return nil
	case s.physical == footer.Int32:
		value = func(src []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(src))) / scale }
	case s.physical == footer.Int64:
		value = func(src []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(src))) / scale }
	case s.physical == footer.FixedLenByteArray:
		value = func(src []byte) float64 { return bigEndian(src[:s.typeLength]) / scale }
	default:
		return nil
	}
	width := plainWidth(s)
	return func(dst []uint64, src []byte) {
		for i := range dst {
			dst[i] = math.Float64bits(value(src[i*width:]))
		}
	}
}

func (s shape) isHalf() bool {
	return s.physical == footer.FixedLenByteArray && s.typeLength == 2 && s.logical.Float16
}

// half widens a float16.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 0: // zero or subnormal: frac times 2^-24, exactly
		return math.Float32frombits(math.Float32bits(float32(frac)*0x1p-24) | sign)
	case 31:
		return math.Float32frombits(sign | 255<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// int96 makes nanoseconds since 1970 of nanoseconds of the day and a Julian day. It wraps around outside of the
// years 1677 to 2262.
func int96(src []byte) int64 {
	const unixEpoch, nanosPerDay = 2440588, 24 * 60 * 60 * 1e9
	nanos, day := binary.LittleEndian.Uint64(src), int64(int32(binary.LittleEndian.Uint32(src[8:])))
	return (day-unixEpoch)*nanosPerDay + int64(nanos)
}

// bigEndian reads an integer of any length in two's complement, rounded to the nearest float64.
func bigEndian(src []byte) float64 {
	if len(src) == 0 {
		return 0
	}
	var flip byte // negative numbers are read as their complement
	if src[0] >= 0x80 {
		flip = 0xff
	}
	for len(src) > 1 && src[0] == flip {
		src = src[1:]
	}
	if len(src) <= 8 && (len(src) < 8 || (src[0]^flip) < 0x80) {
		v := uint64(0)
		for _, b := range src {
			v = v<<8 | uint64(b^flip)
		}
		if flip != 0 {
			return float64(^int64(v))
		}
		return float64(int64(v))
	}
	return wideInteger(src, flip)
}

// wideInteger reads one of more than 63 bits, without needless bytes in front: the highest 64, the last of which
// also stands for what is set below, are enough to round to 53.
func wideInteger(src []byte, flip byte) float64 {
	top, low := uint64(0), byte(0)
	for i, b := range src {
		if i < 8 {
			top = top<<8 | uint64(b^flip)
		} else {
			low |= b
		}
	}
	below := 8 * max(len(src)-8, 0)
	switch {
	case low != 0: // of the complement plus one too
		top |= 1
	case flip != 0:
		if top++; top == 0 {
			return -math.Ldexp(1, 64+below)
		}
	}
	v := math.Ldexp(float64(top), below)
	if flip != 0 {
		return -v
	}
	return v
}
