package parquet

import (
	"encoding/binary"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// conversion32 is how values in PLAIN layout become those of a kind of 32 bits; nil: not at all.
func conversion32(s shape) func(dst []uint32, src []byte) {
	switch {
	case s.isSmall():
		return cutting[uint32](s.logical.Small)
	case s.physical == footer.Int32 && s.kind == pb.Kind_INT32 && !s.logical.Decimal,
		s.physical == footer.Float && s.kind == pb.Kind_FLOAT32:
		return func(dst []uint32, src []byte) { copy(bytesOf(dst), src) }
	case s.isHalf() && s.kind == pb.Kind_FLOAT16:
		return func(dst []uint32, src []byte) {
			for i := range dst {
				dst[i] = uint32(binary.LittleEndian.Uint16(src[i*2:]))
			}
		}
	case s.isHalf() && s.kind == pb.Kind_FLOAT32:
		return func(dst []uint32, src []byte) {
			for i := range dst {
				dst[i] = math.Float32bits(format.Float16(binary.LittleEndian.Uint16(src[i*2:])))
			}
		}
	}
	return nil
}

// conversion64 is the same for 64 bits.
func conversion64(s shape) func(dst []uint64, src []byte) {
	switch {
	case s.kind == pb.Kind_FLOAT64:
		return conversionFloat64(s)
	case s.isSmall():
		return cutting[uint64](s.logical.Small)
	case s.logical.Decimal:
		return nil
	case s.physical == footer.Int64:
		return func(dst []uint64, src []byte) { copy(bytesOf(dst), src) }
	case s.physical == footer.Int32 && s.micros:
		return func(dst []uint64, src []byte) {
			for i := range dst {
				dst[i] = uint64(footer.MicrosOf(int32(binary.LittleEndian.Uint32(src[i*4:]))))
			}
		}
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
	case s.physical == footer.Int96 && s.micros:
		return func(dst []uint64, src []byte) {
			for i := range dst {
				dst[i] = uint64(int96Micros(src[i*12:]))
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
	scale := decode.NewDecimal(s.logical.Scale)
	switch {
	case s.physical == footer.Double:
		return func(dst []uint64, src []byte) { copy(bytesOf(dst), src) }
	case s.physical == footer.Float:
		value = func(src []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(src))) }
	case s.isHalf():
		value = func(src []byte) float64 { return float64(format.Float16(binary.LittleEndian.Uint16(src))) }
	case !s.logical.Decimal:
		return nil
	case s.physical == footer.Int32:
		value = func(src []byte) float64 { return scale.Integer(int64(int32(binary.LittleEndian.Uint32(src)))) }
	case s.physical == footer.Int64:
		value = func(src []byte) float64 { return scale.Integer(int64(binary.LittleEndian.Uint64(src))) }
	case s.physical == footer.FixedLenByteArray:
		value = func(src []byte) float64 { return scale.BigEndian(src[:s.typeLength]) }
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

// isSmall reports whether values are cut to a small integer, which those of an Int32 are.
func (s shape) isSmall() bool {
	return s.physical == footer.Int32 && s.logical.Small != pb.Kind_KIND_UNSPECIFIED
}

// cutting cuts integers of 32 bits to a small kind.
func cutting[T word](kind pb.Kind) func(dst []T, src []byte) {
	switch kind {
	case pb.Kind_INT8:
		return func(dst []T, src []byte) {
			for i := range dst {
				dst[i] = T(int8(src[i*4]))
			}
		}
	case pb.Kind_UINT8:
		return func(dst []T, src []byte) {
			for i := range dst {
				dst[i] = T(src[i*4])
			}
		}
	case pb.Kind_INT16:
		return func(dst []T, src []byte) {
			for i := range dst {
				dst[i] = T(int16(binary.LittleEndian.Uint16(src[i*4:])))
			}
		}
	}
	return func(dst []T, src []byte) {
		for i := range dst {
			dst[i] = T(binary.LittleEndian.Uint16(src[i*4:]))
		}
	}
}

func (s shape) isHalf() bool {
	return s.physical == footer.FixedLenByteArray && s.typeLength == 2 && s.logical.Float16
}

// unixEpoch is the Julian day on which 1970 begins.
const unixEpoch = 2440588

// int96Micros makes microseconds since 1970 of them. It leaves finer parts out, and does not wrap around.
func int96Micros(src []byte) int64 {
	const microsPerDay = 24 * 60 * 60 * 1e6
	nanos, day := int64(binary.LittleEndian.Uint64(src)), int64(binary.LittleEndian.Uint32(src[8:]))
	return (day-unixEpoch)*microsPerDay + floorDiv(nanos, 1000)
}

// floorDiv rounds to the number below: some writers have negative nanoseconds of the day.
func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

// int96 makes nanoseconds since 1970 of nanoseconds of the day and a Julian day. It wraps around outside of the
// years 1677 to 2262.
func int96(src []byte) int64 {
	const nanosPerDay = 24 * 60 * 60 * 1e9
	nanos, day := binary.LittleEndian.Uint64(src), int64(binary.LittleEndian.Uint32(src[8:]))
	return (day-unixEpoch)*nanosPerDay + int64(nanos)
}
