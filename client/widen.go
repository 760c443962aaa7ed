package client

import "github.com/apache/arrow/go/v15/arrow"

// appendInts appends the int64 values from .. to, for which dst has room.
func (w *wireColumn) appendInts(dst []int64, from, to int) []int64 {
	n := len(dst)
	out := dst[n : n+to-from]
	switch w.each {
	case 0:
		copy(out, w.i64[from:to])
	case 1:
		widen(out, w.u8[from:to])
	case 2:
		widen(out, arrow.Uint16Traits.CastFromBytes(w.u8)[from:to])
	case 4:
		widen(out, arrow.Uint32Traits.CastFromBytes(w.u8)[from:to])
	}
	return dst[:n+to-from]
}

// narrow is an element type of narrow values.
type narrow interface{ uint8 | uint16 | uint32 }

// widen puts zeros before values.
func widen[T narrow](dst []int64, src []T) {
	n := widenMost(dst, src)
	widenPlain(dst[n:], src[n:])
}

// widenPlain is what widen does, on any CPU.
func widenPlain[T narrow](dst []int64, src []T) {
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
