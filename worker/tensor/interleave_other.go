//go:build !amd64

package tensor

// interleave writes columns of `rows` values as rows of a matrix, which are stride values apart.
func interleave(dst []float32, stride int, columns [][]float32, rows int) {
	interleavePlain(dst, stride, columns, rows)
}
