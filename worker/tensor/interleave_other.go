//go:build !amd64

package tensor

// simd says that there are no other loops than those of plain Go.
var simd struct{ avx2, avx512 bool } //nolint:gochecknoglobals // a property of the machine: only tests write it

// interleave writes columns of `rows` values as rows of a matrix, which are stride values apart.
func interleave(dst []float32, stride int, columns [][]float32, rows int) {
	interleavePlain(dst, stride, columns, rows)
}
