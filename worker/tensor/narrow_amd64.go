package tensor

import (
	"unsafe"

	"github.com/penstock-ml/penstock/internal/simd"
)

// narrow2AVX2 and narrow4AVX2 write n values, a multiple of 16, that fit in 2 and 4 bytes.
//
//go:noescape
func narrow2AVX2(dst, src unsafe.Pointer, n int)

//go:noescape
func narrow4AVX2(dst, src unsafe.Pointer, n int)

// halveAVX2 writes n values of 4 bytes, a multiple of 16, that fit in 2.
//
//go:noescape
func halveAVX2(dst, src unsafe.Pointer, n int)

// packAVX2 packs n values of 4 bytes, a multiple of 8, into 3 bytes each, and writes 8 bytes behind these. dst may be
// src.
//
//go:noescape
func packAVX2(dst, src unsafe.Pointer, n int)

// bitsAVX2 is the bits that any of n words of 8 bytes has, a multiple of 16.
//
//go:noescape
func bitsAVX2(words unsafe.Pointer, n int) uint64

// bitsSIMD is the bits of as many of the first values as can be read with SIMD, and how many these are.
func bitsSIMD[T int32 | int64 | uint32](values []T) (bits T, n int) {
	const block = 16 * 8
	size := int(unsafe.Sizeof(bits))
	if n = len(values) * size &^ (block - 1) / size; simdLevel < simd.AVX2 || n == 0 {
		return 0, 0
	}
	words := bitsAVX2(unsafe.Pointer(&values[0]), n*size/8)
	if bits = T(words); size < 8 {
		bits |= T(words >> 32)
	}
	return bits, n
}

// packSIMD packs as many of the first values as can be with SIMD, and returns how many.
func packSIMD(dst, values []uint32) int {
	n := len(values) &^ 7
	if simdLevel < simd.AVX2 || n == 0 {
		return 0
	}
	packAVX2(unsafe.Pointer(&dst[:n][0]), unsafe.Pointer(&values[0]), n)
	return n
}

// narrowSIMD narrows as many of the first values as can be with SIMD, and returns how many.
func narrowSIMD[D unsigned | int64, S int64 | uint32 | int32](dst []D, src []S) int {
	n := len(src) &^ 15
	if simdLevel < simd.AVX2 || n == 0 {
		return 0
	}
	to, from := unsafe.Pointer(&dst[:n][0]), unsafe.Pointer(&src[0])
	switch [2]uintptr{unsafe.Sizeof(src[0]), unsafe.Sizeof(dst[0])} {
	case [2]uintptr{8, 4}:
		narrow4AVX2(to, from, n)
	case [2]uintptr{8, 2}:
		narrow2AVX2(to, from, n)
	case [2]uintptr{4, 2}:
		halveAVX2(to, from, n)
	default:
		return 0
	}
	return n
}
