package images

import "github.com/penstock-ml/penstock/internal/simd"

// acrossAVX2 makes n values, a multiple of 4, each of `most` pixels of row from its first on. It writes two bytes
// behind them.
//
//go:noescape
func acrossAVX2(dst, row *byte, first *int32, weights *uint32, taps, most, n int)

// downAVX2 makes n bytes, a multiple of 32, each of count bytes that are stride bytes apart.
//
//go:noescape
func downAVX2(dst, rows *byte, stride int, weights *uint32, count, n int)

// acrossVNNI makes n values, a multiple of 4, of each of four rows that are long bytes apart, where they are to be
// short bytes apart. taps and most are those of acrossAVX2.
//
//go:noescape
func acrossVNNI(dst *byte, short int, rows *byte, long int, first *int32, digits *uint32, taps, most, n int)

// downVNNI makes n bytes, each of `most` bytes, a multiple of 4, that are stride bytes apart.
//
//go:noescape
func downVNNI(dst, rows *byte, stride int, digits *uint32, most, n int)

// lookUpAVX2 puts what the tables have of the bytes of n pixels, a multiple of 8, to three planes of values. It reads
// four bytes behind them.
//
//go:noescape
func lookUpAVX2(dst *float32, plane int, row *byte, tables *[3][256]float32, n int)

// lookUpPlanes puts what the tables have of a row's pixels to three planes of values, behind which the row has slack
// bytes. It returns how many of the n pixels it took.
func lookUpPlanes(dst []float32, plane int, row []byte, tables *[3][256]float32, n int) int {
	if n &^= 7; simdLevel < simd.AVX2 || n == 0 {
		return 0
	}
	_, _ = dst[2*plane+n-1], row[3*n+slack-1]
	lookUpAVX2(&dst[0], plane, &row[0], tables, n)
	return n
}

// acrossRows makes four rows, behind which dst has slack bytes, of four that each have as many pixels as end.
func (a *axis) acrossRows(dst, rows []byte) {
	short, long := 3*len(a.first), len(rows)/rowsAtOnce
	n := len(a.first) &^ 3
	if simdLevel < simd.VNNI || n == 0 {
		a.acrossEach(dst, rows)
		return
	}
	_, _ = rows[long*(rowsAtOnce-1)+pixelBytes*a.end-1], dst[rowsAtOnce*short-1]
	acrossVNNI(&dst[0], short, &rows[0], long, &a.first[0], &a.digits[0], a.taps, a.most, n)
	for k := range rowsAtOnce {
		a.acrossColoursPlain(dst[k*short:], rows[k*long:], n)
	}
}

// acrossColours makes a row of three bytes a pixel, behind which dst has slack bytes, of one of four bytes a pixel,
// which has as many as end. The axis must have been placed: no first is negative, or greater than the last one's.
func (a *axis) acrossColours(dst, row []byte) {
	n := len(a.first) &^ 3
	if simdLevel < simd.AVX2 || n == 0 {
		a.acrossColoursPlain(dst, row, 0)
		return
	}
	_, _ = row[pixelBytes*a.end-1], dst[3*n+slack-1]
	acrossAVX2(&dst[0], &row[0], &a.first[0], &a.weights[0], a.taps, a.most, n)
	a.acrossColoursPlain(dst, row, n)
}

// down makes value i of rows that follow each other, each as long as dst; there are as many as end.
func (a *axis) down(dst, rows []byte, i int) {
	if simdLevel >= simd.VNNI {
		above := rows[int(a.first[i])*len(dst):][:a.most*len(dst)]
		downVNNI(&dst[0], &above[0], len(dst), &a.digits[i*a.taps], a.most, len(dst))
		return
	}
	n := len(dst) &^ 31
	if simdLevel < simd.AVX2 || n == 0 {
		a.downPlain(dst, rows, i, 0)
		return
	}
	count := int(a.count[i])
	above := rows[int(a.first[i])*len(dst):][:count*len(dst)]
	downAVX2(&dst[0], &above[0], len(dst), &a.weights[i*a.taps], count, n)
	a.downPlain(dst, rows, i, n)
}
