package transform

import "github.com/penstock-ml/penstock/internal/simd"

// clampFloat32AVX is clampPlain of n values, a multiple of 8 above 0.
//
//go:noescape
func clampFloat32AVX(dst, src *float32, n int, low, high float32)

// standardizeFloat32AVX is standardizePlain of n values, a multiple of 8 above 0.
//
//go:noescape
func standardizeFloat32AVX(dst, src *float32, n int, mean, std float32)

func clampFloat32(dst, src []float32, low, high float32) {
	dst = dst[:len(src)]
	n := 0
	if simdLevel >= simd.AVX2 && len(src) >= 8 {
		n = len(src) &^ 7
		clampFloat32AVX(&dst[0], &src[0], n, low, high)
	}
	clampPlain(dst[n:], src[n:], low, high)
}

func standardizeFloat32(dst, src []float32, mean, std float32) {
	dst = dst[:len(src)]
	n := 0
	if simdLevel >= simd.AVX2 && len(src) >= 8 {
		n = len(src) &^ 7
		standardizeFloat32AVX(&dst[0], &src[0], n, mean, std)
	}
	standardizePlain(dst[n:], src[n:], mean, std)
}
