package jpeg

import "github.com/penstock-ml/penstock/internal/simd"

// idctAVX2 writes the samples of a block to eight rows that are stride bytes apart, if 16 bits hold what it takes, as
// they do in pictures that are not damaged.
//
//go:noescape
func idctAVX2(dst *byte, stride int, block *[64]int32) (ok bool)

// stretchAVX2 makes twice as many samples of n, a multiple of 16, which have one before and one behind them.
//
//go:noescape
func stretchAVX2(dst, near, far *byte, n int, even, odd int16)

// yccAVX2 makes n pixels, a multiple of 16.
//
//go:noescape
func yccAVX2(dst, luma, blues, reds *byte, n int)

func idct(dst []byte, stride int, b *[64]int32, last int) {
	_ = dst[7*stride+7]
	if simdLevel < simd.AVX2 || last == 0 || !idctAVX2(&dst[0], stride, b) {
		idctPlain(dst, stride, b, last)
	}
}

func stretch(dst, near, far []byte, even, odd int16) {
	n := len(near)
	if simdLevel < simd.AVX2 || n < 16+2 {
		stretchPlain(dst, near, far, even, odd)
		return
	}
	_, _ = dst[2*n-1], far[n-1]
	stretchAVX2(&dst[2], &near[1], &far[1], (n-2)&^15, even, odd)
	at := n - 1 - 16 // the last ones, some of them once more
	stretchAVX2(&dst[2*at], &near[at], &far[at], 16, even, odd)
	stretchEnds(dst, near, far, even, odd)
}

func fromYCC(dst, luma, blues, reds []byte) {
	n := len(luma)
	if simdLevel < simd.AVX2 || n < 16 {
		fromYCCPlain(dst, luma, blues, reds)
		return
	}
	_, _, _ = dst[pixel*n-1], blues[n-1], reds[n-1]
	yccAVX2(&dst[0], &luma[0], &blues[0], &reds[0], n&^15)
	at := n - 16 // the last ones, some of them once more
	yccAVX2(&dst[pixel*at], &luma[at], &blues[at], &reds[at], 16)
}
