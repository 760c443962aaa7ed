//go:build !amd64

package images

// There are no other loops than those of plain Go.

// acrossColours makes a row of three bytes a pixel of one of four bytes a pixel.
func (a *axis) acrossColours(dst, row []byte) { a.acrossColoursPlain(dst, row, 0) }

// lookUpPlanes takes none of a row's pixels.
func lookUpPlanes([]float32, int, []byte, *[3][256]float32, int) int { return 0 }

// acrossRows makes four rows, behind which dst has slack bytes, of four that each have as many pixels as end.
func (a *axis) acrossRows(dst, rows []byte) { a.acrossEach(dst, rows) }

// down makes value i of rows that follow each other, each as long as dst.
func (a *axis) down(dst, rows []byte, i int) { a.downPlain(dst, rows, i, 0) }
