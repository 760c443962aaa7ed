package transform

import "github.com/penstock-ml/penstock/internal/simd"

// bucketFloat32AVX512 is bucketsPlain of n values, a multiple of 16 above 0.
//
//go:noescape
func bucketFloat32AVX512(dst *int32, src *float32, n int, t *borderTable[int32])

// bucketFloat32AVX2 is bucketsPlain of n values, a multiple of 8 above 0.
//
//go:noescape
func bucketFloat32AVX2(dst *int32, src *float32, n int, t *borderTable[int32])

func bucketFloat32(dst []int32, src []float32, table *borderTable[int32]) {
	dst = dst[:len(src)]
	n := 0
	switch {
	case simdLevel >= simd.AVX512 && len(src) >= 16:
		n = len(src) &^ 15
		bucketFloat32AVX512(&dst[0], &src[0], n, table)
	case simdLevel >= simd.AVX2 && len(src) >= 8:
		n = len(src) &^ 7
		bucketFloat32AVX2(&dst[0], &src[0], n, table)
	}
	bucketsPlain(dst[n:], src[n:], table)
}
