package client

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// simd says which instructions may be used beyond those that each CPU has. Results do not depend on it.
var simd = struct{ avx2 bool }{avx2: cpu.X86.HasAVX2} //nolint:gochecknoglobals // a property of the machine: only tests write it

// widen1AVX2, widen2AVX2 and widen4AVX2 widen n values of 1, 2 and 4 bytes, a multiple of 16.
//
//go:noescape
func widen1AVX2(dst, src unsafe.Pointer, n int)

//go:noescape
func widen2AVX2(dst, src unsafe.Pointer, n int)

//go:noescape
func widen4AVX2(dst, src unsafe.Pointer, n int)

// widenMost widens as many of the first values as can be with SIMD, and returns how many.
func widenMost[T narrow](dst []int64, src []T) int {
	n := len(src) &^ 15
	if !simd.avx2 || n == 0 {
		return 0
	}
	to, from := unsafe.Pointer(&dst[:n][0]), unsafe.Pointer(&src[0])
	switch unsafe.Sizeof(src[0]) {
	case 1:
		widen1AVX2(to, from, n)
	case 2:
		widen2AVX2(to, from, n)
	default:
		widen4AVX2(to, from, n)
	}
	return n
}
