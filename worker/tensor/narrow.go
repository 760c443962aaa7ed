package tensor

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Widths are those that int64 values of lists and labels may have, see Builder.Narrow.
type Widths int

const (
	// AsArrow is 8 bytes.
	AsArrow Widths = iota
	// Unpacked is 1, 2, 4 or 8 bytes, for batches that are read where they are. Values that lie in 32 bits stay there:
	// to make them narrower takes longer than to read them.
	Unpacked
	// Packed is 1, 2, 3, 4 or 8 bytes, for batches that are sent: each byte takes time.
	Packed
)

// wide is how many bytes an int64 has in Arrow.
const wide = 8

// widthOf is the least of the widths that holds each int64 value of a vector without a sign. Values of nulls count,
// too, whatever they are.
func widthOf(v *vector.Vector, widths Widths) int {
	values := v.Len()
	var bits uint64
	switch {
	case widths == AsArrow:
		return wide
	case v.U32 != nil && widths == Unpacked:
		return 4
	case v.U32 != nil:
		bits = bitsOf(v.U32[:values], 1<<24)
	case v.Type.Kind == pb.Kind_INT64:
		bits = bitsOf(v.I64[:values], 1<<32)
	default:
		bits = bitsOf(v.I32[:values], 1<<32)
	}
	return fitting(bits, widths)
}

// fitting is the least of the widths that has so many bits.
func fitting(bits uint64, widths Widths) int {
	switch {
	case widths == AsArrow:
		return wide
	case bits < 1<<8:
		return 1
	case bits < 1<<16:
		return 2
	case bits < 1<<24 && widths == Packed:
		return 3
	case bits < 1<<32:
		return 4
	}
	return wide
}

// spareOf is how many bytes n values take beside theirs while they are laid out: those of 3 bytes have 4 until they are
// packed.
func spareOf(width, n int) int64 {
	if width == 3 {
		return int64(n)
	}
	return 0
}

// bitsOf are those that any of the values has; of values with bits from `enough` on it may leave out some, since more
// do not change the width.
func bitsOf[T int32 | int64 | uint32](values []T, enough uint64) uint64 {
	var a, b, c, d T
	for len(values) > 0 && uint64(a) < enough {
		piece := values[:min(len(values), 1<<10)]
		values = values[len(piece):]
		most, n := bitsSIMD(piece)
		a, piece = a|most, piece[n:]
		for ; len(piece) >= 8; piece = piece[8:] {
			x := (*[8]T)(piece)
			a, b, c, d = a|x[0]|x[1], b|x[2]|x[3], c|x[4]|x[5], d|x[6]|x[7]
		}
		for _, x := range piece {
			a |= x
		}
		a |= b | c | d
	}
	return uint64(a)
}

// unsigned is an element type of narrow values.
type unsigned interface{ uint8 | uint16 | uint32 }

// narrowed lays int64 values out with as many bytes as dst has, whatever they lie in.
func narrowed[D unsigned | int64, S number](dst []D, src []S) bool {
	switch values := any(src).(type) {
	case []int64:
		narrow(dst, values)
	case []uint32:
		narrow(dst, values)
	case []int32:
		narrow(dst, values)
	default:
		return false
	}
	return true
}

// narrow writes values that fit.
func narrow[D unsigned | int64, S int64 | uint32 | int32](dst []D, src []S) {
	n := narrowSIMD(dst, src)
	narrowPlain(dst[n:], src[n:])
}

// narrowPlain is what narrow does, on any CPU.
func narrowPlain[D unsigned | int64, S int64 | uint32 | int32](dst []D, src []S) {
	for len(src) >= 8 && len(dst) >= 8 {
		to, from := (*[8]D)(dst), (*[8]S)(src)
		to[0], to[1], to[2], to[3] = D(from[0]), D(from[1]), D(from[2]), D(from[3])
		to[4], to[5], to[6], to[7] = D(from[4]), D(from[5]), D(from[6]), D(from[7])
		dst, src = dst[8:], src[8:]
	}
	for i, x := range src {
		dst[i] = D(x)
	}
}

// packed lays values below 2^24 out with 3 bytes each in the memory of dst, which is as long, and may be theirs.
func packed(dst, values []uint32) []byte {
	n := packSIMD(dst, values)
	packPlain(dst, values, n)
	return bytesOf(dst)[:3*len(values)]
}

// packPlain is what packed does with the values behind the first n, on any CPU.
func packPlain(dst, values []uint32, n int) {
	bytes := bytesOf(dst)
	for i, x := range values[n:] {
		to := bytes[3*(n+i):][:3]
		to[0], to[1], to[2] = byte(x), byte(x>>8), byte(x>>16)
	}
}
