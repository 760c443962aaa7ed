package client

import (
	"unsafe"

	"github.com/penstock-ml/penstock/internal/simd"
	"github.com/penstock-ml/penstock/internal/wire"
)

// simdLevel says which instructions loops may use. Results do not depend on it.
var simdLevel = simd.Best() //nolint:gochecknoglobals // a property of the machine: only tests write it

// widen1AVX2 to widen4AVX2 widen n values of 1 to 4 bytes, a multiple of 16. That of 3 bytes reads 4 bytes after them.
//
//go:noescape
func widen1AVX2(dst, src unsafe.Pointer, n int)

//go:noescape
func widen2AVX2(dst, src unsafe.Pointer, n int)

//go:noescape
func widen3AVX2(dst, src unsafe.Pointer, n int)

//go:noescape
func widen4AVX2(dst, src unsafe.Pointer, n int)

// widen1Past to widen4Past do so past the caches, and copy8Past copies values of 8 bytes. dst is aligned to 32 bytes.
//
//go:noescape
func widen1Past(dst, src unsafe.Pointer, n int)

//go:noescape
func widen2Past(dst, src unsafe.Pointer, n int)

//go:noescape
func widen3Past(dst, src unsafe.Pointer, n int)

//go:noescape
func widen4Past(dst, src unsafe.Pointer, n int)

//go:noescape
func copy8Past(dst, src unsafe.Pointer, n int)

// widenSIMD widens as many of the first values as can be with SIMD, and returns how many.
func widenSIMD[T narrow](dst []int64, src []T, past bool) int {
	size, n := unsafe.Sizeof(*new(T)), len(src)
	if size == 3 {
		n -= 2 // which are read along
	}
	if n &^= 15; simdLevel < simd.AVX2 || n <= 0 {
		return 0
	}
	to, from := unsafe.Pointer(&dst[:n][0]), unsafe.Pointer(&src[0])
	switch {
	case past && size == 1:
		widen1Past(to, from, n)
	case past && size == 2:
		widen2Past(to, from, n)
	case past && size == 3:
		widen3Past(to, from, n)
	case past:
		widen4Past(to, from, n)
	case size == 1:
		widen1AVX2(to, from, n)
	case size == 2:
		widen2AVX2(to, from, n)
	case size == 3:
		widen3AVX2(to, from, n)
	default:
		widen4AVX2(to, from, n)
	}
	return n
}

// copySIMD copies as many of the first values past the caches as can be with SIMD, and returns how many.
func copySIMD[T wire.Value](dst, src []T) int {
	const block = 16 * 8
	size := int(unsafe.Sizeof(src[0]))
	n := len(src) * size &^ (block - 1) / size
	if simdLevel < simd.AVX2 || n == 0 {
		return 0
	}
	copy8Past(unsafe.Pointer(&dst[:n][0]), unsafe.Pointer(&src[0]), n*size/8)
	return n
}
