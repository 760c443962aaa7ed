package tensor

import "github.com/penstock-ml/penstock/internal/simd"

// interleaveAVX512 writes n rows, a multiple of 4, of the columns that mask has a bit for.
//
//go:noescape
func interleaveAVX512(dst *float32, stride int, columns *[tileColumns]*float32, mask uint32, n int)

// interleaveAVX2 does so with 8 columns, all of them.
//
//go:noescape
func interleaveAVX2(dst *float32, stride int, columns *[8]*float32, n int)

// interleave writes columns of `rows` values as rows of a matrix, which are stride values apart.
func interleave(dst []float32, stride int, columns [][]float32, rows int) {
	n := rows &^ 3
	switch {
	case n > 0 && simdLevel >= simd.AVX512 && len(columns) > 0:
		_ = dst[(rows-1)*stride+len(columns)-1]
		var first [tileColumns]*float32
		for i := range first {
			first[i] = &columns[0][:rows][0] // read, but not written, where there are fewer columns
			if i < len(columns) {
				first[i] = &columns[i][:rows][0]
			}
		}
		interleaveAVX512(&dst[0], stride, &first, 1<<len(columns)-1, n)
	case n > 0 && simdLevel >= simd.AVX2 && len(columns) >= 8:
		_ = dst[(rows-1)*stride+len(columns)-1]
		for done := 0; done < len(columns); done += 8 {
			at := min(done, len(columns)-8) // the last eight begin among those before them
			var first [8]*float32
			for i := range first {
				first[i] = &columns[at+i][:rows][0]
			}
			interleaveAVX2(&dst[at], stride, &first, n)
		}
	default:
		interleavePlain(dst, stride, columns, rows)
		return
	}
	for at, column := range columns {
		for i := n; i < rows; i++ {
			dst[at+i*stride] = column[i]
		}
	}
}
