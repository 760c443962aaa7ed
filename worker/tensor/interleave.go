package tensor

// Tiles of the matrix: as many columns as a line of cache has of their values, and rows that keep a tile, and what it
// is made of, in the first level.
const (
	tileColumns = 16
	tileRows    = 256
)

// tile is what a tile is made of: up to tileColumns columns of as many rows, and memory for those that are not in a
// vector as the matrix wants them.
type tile struct {
	columns [tileColumns][]float32
	memory  [tileColumns][tileRows]float32
}

// interleavePlain is what interleave does, on any CPU: it writes columns of `rows` values as rows of a matrix, which
// are stride values apart. Four columns at a time keep their addresses in registers.
func interleavePlain(dst []float32, stride int, columns [][]float32, rows int) {
	if rows == 0 {
		return
	}
	for ; len(columns) >= 4; columns = columns[4:] {
		a, b, c, d := columns[0][:rows], columns[1][:rows], columns[2][:rows], columns[3][:rows]
		for i := range a {
			four := dst[i*stride:][:4]
			four[0], four[1], four[2], four[3] = a[i], b[i], c[i], d[i]
		}
		dst = dst[min(4, len(dst)):]
	}
	for at, column := range columns {
		for i, x := range column[:rows] {
			dst[at+i*stride] = x
		}
	}
}
