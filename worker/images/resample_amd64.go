package images

import "golang.org/x/sys/cpu"

// simd says which instructions may be used beyond those that each CPU has. Results do not depend on it.
var simd = struct{ avx2 bool }{cpu.X86.HasAVX2} //nolint:gochecknoglobals // a property of the machine: only tests write it

// acrossAVX2 makes n values, a multiple of 4, each of `most` pixels of row from its first on. It writes two bytes behind them.
//
//go:noescape
func acrossAVX2(dst, row *byte, first *int32, weights *uint32, taps, most, n int)

// downAVX2 makes n bytes, a multiple of 32, each of count bytes that are stride bytes apart.
//
//go:noescape
func downAVX2(dst, rows *byte, stride int, weights *uint32, count, n int)

// acrossColours makes a row of three bytes a pixel, behind which dst has slack bytes, of one of four bytes a pixel, which has
// as many as end. The axis must have been placed: no first is negative, or greater than the last one's.
func (a *axis) acrossColours(dst, row []byte) {
	n := len(a.first) &^ 3
	if !simd.avx2 || n == 0 {
		a.acrossColoursPlain(dst, row, 0)
		return
	}
	_, _ = row[pixelBytes*a.end-1], dst[3*n+slack-1]
	acrossAVX2(&dst[0], &row[0], &a.first[0], &a.weights[0], a.taps, a.most, n)
	a.acrossColoursPlain(dst, row, n)
}

// down makes value i of rows that follow each other, each as long as dst.
func (a *axis) down(dst, rows []byte, i int) {
	n := len(dst) &^ 31
	if !simd.avx2 || n == 0 {
		a.downPlain(dst, rows, i, 0)
		return
	}
	count := int(a.count[i])
	above := rows[int(a.first[i])*len(dst):][:count*len(dst)]
	downAVX2(&dst[0], &above[0], len(dst), &a.weights[i*a.taps], count, n)
	a.downPlain(dst, rows, i, n)
}
