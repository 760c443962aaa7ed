package transform

import "github.com/penstock-ml/penstock/internal/simd"

// hashInt64AVX512 and hashInt32AVX512 are hashPlain of n values, a multiple of 8.
//
//go:noescape
func hashInt64AVX512(dst, src *int64, n int, p *hashParams)

//go:noescape
func hashInt32AVX512(dst *int64, src *int32, n int, p *hashParams)

// hashInt64AVX2 and hashInt32AVX2 are hashPlain of n values, a multiple of 4.
//
//go:noescape
func hashInt64AVX2(dst, src *int64, n int, p *hashParams)

//go:noescape
func hashInt32AVX2(dst *int64, src *int32, n int, p *hashParams)

// hashInts hashes ids; dst and src may be the same slice.
func hashInts[S int32 | int64](dst []int64, src []S, p *hashParams) {
	dst = dst[:len(src)]
	n := 0
	switch {
	case simdLevel >= simd.AVX512 && len(src) >= 8:
		n = len(src) &^ 7
		switch src := any(src).(type) {
		case []int64:
			hashInt64AVX512(&dst[0], &src[0], n, p)
		case []int32:
			hashInt32AVX512(&dst[0], &src[0], n, p)
		}
	case simdLevel >= simd.AVX2 && len(src) >= 4:
		n = len(src) &^ 3
		switch src := any(src).(type) {
		case []int64:
			hashInt64AVX2(&dst[0], &src[0], n, p)
		case []int32:
			hashInt32AVX2(&dst[0], &src[0], n, p)
		}
	}
	hashPlain(dst[n:], src[n:], p)
}
