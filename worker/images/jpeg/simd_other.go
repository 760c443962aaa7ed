//go:build !amd64

package jpeg

// There are no other loops than those of plain Go.

func idct(dst []byte, stride int, b *[64]int32, last int) { idctPlain(dst, stride, b, last) }

func stretch(dst, near, far []byte, even, odd int16) { stretchPlain(dst, near, far, even, odd) }

func fromYCC(dst, luma, blues, reds []byte) { fromYCCPlain(dst, luma, blues, reds) }
