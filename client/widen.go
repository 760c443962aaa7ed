package client

import (
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/wire"
)

// pastCaches is from what size on, in bytes as they come, a batch is not written to the caches, but past them. To
// there, each line of it would be read from memory first; and from there, little of it would be left when the training
// loop reads it.
const pastCaches = 4 << 20

// appendInts appends the int64 values from .. to, for which dst has room.
func (w *wireColumn) appendInts(dst []int64, from, to int, past bool) []int64 {
	n := len(dst)
	out := dst[n : n+to-from]
	switch w.each {
	case 0:
		put(out, w.i64[from:to], past)
	case 1:
		widen(out, w.u8[from:to], past)
	case 2:
		widen(out, arrow.Uint16Traits.CastFromBytes(w.u8)[from:to], past)
	case 3:
		widen(out, uint24s(w.u8)[from:to], past)
	case 4:
		widen(out, arrow.Uint32Traits.CastFromBytes(w.u8)[from:to], past)
	}
	return dst[:n+to-from]
}

// narrow is an element type of narrow values.
type narrow interface {
	uint8 | uint16 | uint24 | uint32
}

// uint24 is a value of three bytes, the lowest first.
type uint24 [3]byte

func uint24s(data []byte) []uint24 {
	return unsafe.Slice((*uint24)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/len(uint24{}))
}

// put copies src to dst, which has its length.
func put[T wire.Value](dst, src []T, past bool) {
	n := 0
	if past {
		head := beforeLine(dst)
		copy(dst[:head], src)
		dst, src = dst[head:], src[head:]
		n = copySIMD(dst, src)
	}
	copy(dst[n:], src[n:])
}

// widen puts zeros before the values of src and writes them to dst, which has its length.
func widen[T narrow](dst []int64, src []T, past bool) {
	if past {
		head := beforeLine(dst)
		widenPlain(dst[:head], src[:head])
		dst, src = dst[head:], src[head:]
	}
	n := widenSIMD(dst, src, past)
	widenPlain(dst[n:], src[n:])
}

// beforeLine is how many values lie before the first line of the caches that begins in them.
func beforeLine[T wire.Value](values []T) int {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(values)))
	return min(len(values), int(-address%wire.Alignment/unsafe.Sizeof(values[0])))
}

// widenPlain is what widen does, on any CPU.
func widenPlain[T narrow](dst []int64, src []T) {
	switch src := any(src).(type) {
	case []uint8:
		widenEach(dst, src)
	case []uint16:
		widenEach(dst, src)
	case []uint24:
		for i, x := range src {
			dst[i] = int64(x[0]) | int64(x[1])<<8 | int64(x[2])<<16
		}
	case []uint32:
		widenEach(dst, src)
	}
}

func widenEach[T uint8 | uint16 | uint32](dst []int64, src []T) {
	for len(src) >= 8 && len(dst) >= 8 {
		to, from := (*[8]int64)(dst), (*[8]T)(src)
		to[0], to[1], to[2], to[3] = int64(from[0]), int64(from[1]), int64(from[2]), int64(from[3])
		to[4], to[5], to[6], to[7] = int64(from[4]), int64(from[5]), int64(from[6]), int64(from[7])
		dst, src = dst[8:], src[8:]
	}
	for i, x := range src {
		dst[i] = int64(x)
	}
}
