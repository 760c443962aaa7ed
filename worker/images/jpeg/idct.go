package jpeg

// The constants of the "islow" IDCT of libjpeg, after Loeffler, Ligtenberg and Moschytz: 2^13 times cosines.
const (
	constBits = 13
	pass1Bits = 2

	f0298 = 2446
	f0390 = 3196
	f0541 = 4433
	f0765 = 6270
	f0899 = 7373
	f1175 = 9633
	f1501 = 12299
	f1847 = 15137
	f1961 = 16069
	f2053 = 16819
	f2562 = 20995
	f3072 = 25172
)

// idctPlain is idct on any CPU: it writes the samples of a block to dst. No coefficient behind the last-th in zigzag
// order is other than 0.
func idctPlain(dst []byte, stride int, b *[64]int32, last int) {
	switch {
	case last == 0:
		flatBlock(dst, stride, clamp((b[0]+4)>>3+128))
	case last < 10: // the upper left 4 x 4
		for x := range 4 {
			column4(b, x)
		}
		for y := range 8 {
			row4((*[8]byte)(dst[y*stride:]), (*[8]int32)(b[8*y:]))
		}
	default:
		for x := range 8 {
			column8(b, x)
		}
		for y := range 8 {
			row8((*[8]byte)(dst[y*stride:]), (*[8]int32)(b[8*y:]))
		}
	}
}

func flatBlock(dst []byte, stride int, v byte) {
	row := [8]byte{v, v, v, v, v, v, v, v}
	for y := range 8 {
		*(*[8]byte)(dst[y*stride:]) = row
	}
}

// clamp moves v into a byte's range.
func clamp(v int32) byte {
	if uint32(v) > 255 {
		return byte(^(v >> 31))
	}
	return byte(v)
}

// even and odd are the halves of a transform of 8 values.
func even(b0, b2, b4, b6 int32) (t10, t11, t12, t13 int32) {
	z1 := (b2 + b6) * f0541
	t2, t3 := z1-b6*f1847, z1+b2*f0765
	t0, t1 := (b0+b4)<<constBits, (b0-b4)<<constBits
	return t0 + t3, t1 + t2, t1 - t2, t0 - t3
}

func odd(b1, b3, b5, b7 int32) (t0, t1, t2, t3 int32) {
	z3, z4 := b7+b3, b5+b1
	z5 := (z3 + z4) * f1175
	z1, z2 := (b7+b1)*-f0899, (b5+b3)*-f2562
	z3, z4 = z5-z3*f1961, z5-z4*f0390
	return b7*f0298 + z1 + z3, b5*f2053 + z2 + z4, b3*f3072 + z2 + z3, b1*f1501 + z1 + z4
}

// column8 transforms a column in place; values keep pass1Bits of fraction.
func column8(b *[64]int32, x int) {
	const half, shift = 1 << (constBits - pass1Bits - 1), constBits - pass1Bits
	c := (*[57]int32)(b[x:])
	if c[8]|c[16]|c[24]|c[32]|c[40]|c[48]|c[56] == 0 {
		v := (c[0]<<constBits + half) >> shift
		c[0], c[8], c[16], c[24], c[32], c[40], c[48], c[56] = v, v, v, v, v, v, v, v
		return
	}
	t10, t11, t12, t13 := even(c[0], c[16], c[32], c[48])
	t0, t1, t2, t3 := odd(c[8], c[24], c[40], c[56])
	c[0], c[56] = (t10+t3+half)>>shift, (t10-t3+half)>>shift
	c[8], c[48] = (t11+t2+half)>>shift, (t11-t2+half)>>shift
	c[16], c[40] = (t12+t1+half)>>shift, (t12-t1+half)>>shift
	c[24], c[32] = (t13+t0+half)>>shift, (t13-t0+half)>>shift
}

// row8 transforms a row to samples.
func row8(dst *[8]byte, r *[8]int32) {
	t10, t11, t12, t13 := even(r[0], r[2], r[4], r[6])
	t0, t1, t2, t3 := odd(r[1], r[3], r[5], r[7])
	store(dst, t10, t11, t12, t13, t0, t1, t2, t3)
}

func store(dst *[8]byte, t10, t11, t12, t13, t0, t1, t2, t3 int32) {
	const shift = constBits + pass1Bits + 3
	const half = 1<<(shift-1) + 128<<shift
	dst[0], dst[7] = clamp((t10+t3+half)>>shift), clamp((t10-t3+half)>>shift)
	dst[1], dst[6] = clamp((t11+t2+half)>>shift), clamp((t11-t2+half)>>shift)
	dst[2], dst[5] = clamp((t12+t1+half)>>shift), clamp((t12-t1+half)>>shift)
	dst[3], dst[4] = clamp((t13+t0+half)>>shift), clamp((t13-t0+half)>>shift)
}

// column4 is column8 where only the upper four values are other than 0.
func column4(b *[64]int32, x int) {
	c := (*[57]int32)(b[x:])
	t10, t11, t12, t13 := even(c[0], c[16], 0, 0)
	t0, t1, t2, t3 := odd(c[8], c[24], 0, 0)
	const half, shift = 1 << (constBits - pass1Bits - 1), constBits - pass1Bits
	c[0], c[56] = (t10+t3+half)>>shift, (t10-t3+half)>>shift
	c[8], c[48] = (t11+t2+half)>>shift, (t11-t2+half)>>shift
	c[16], c[40] = (t12+t1+half)>>shift, (t12-t1+half)>>shift
	c[24], c[32] = (t13+t0+half)>>shift, (t13-t0+half)>>shift
}

// row4 is row8 where only the first four values are other than 0.
func row4(dst *[8]byte, r *[8]int32) {
	t10, t11, t12, t13 := even(r[0], r[2], 0, 0)
	t0, t1, t2, t3 := odd(r[1], r[3], 0, 0)
	store(dst, t10, t11, t12, t13, t0, t1, t2, t3)
}
