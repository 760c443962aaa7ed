package tensor

import "unsafe"

// narrow2AVX2 and narrow4AVX2 write n values, a multiple of 16, that fit in 2 and 4 bytes.
//
//go:noescape
func narrow2AVX2(dst, src unsafe.Pointer, n int)

//go:noescape
func narrow4AVX2(dst, src unsafe.Pointer, n int)

// narrowMost narrows as many of the first values as can be with SIMD, and returns how many: none of those that lie in 32 bits.
func narrowMost[D unsigned | int64, S int64 | uint32](dst []D, src []S) int {
	n := len(src) &^ 15
	if !simd.avx2 || n == 0 || unsafe.Sizeof(src[0]) != wide {
		return 0
	}
	to, from := unsafe.Pointer(&dst[:n][0]), unsafe.Pointer(&src[0])
	switch unsafe.Sizeof(dst[0]) {
	case 2:
		narrow2AVX2(to, from, n)
	case 4:
		narrow4AVX2(to, from, n)
	default:
		return 0
	}
	return n
}
