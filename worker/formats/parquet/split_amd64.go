package parquet

// joinVector does what joinPlanes does for some of the n values, and returns for how many.
func joinVector(dst, planes []byte, stride, width, n int) (done int) {
	switch {
	case width == 4 && n >= 16:
		_, _ = dst[n*4-1], planes[3*stride+n-1]
		joinSSE4(&dst[0], &planes[0], stride, n/16)
		return n &^ 15
	case width == 8 && n >= 8:
		_, _ = dst[n*8-1], planes[7*stride+n-1]
		joinSSE8(&dst[0], &planes[0], stride, n/8)
		return n &^ 7
	}
	return 0
}

// joinSSE4 joins sixteen values of four bytes at a time, groups of them, 1 or more.
//
//go:noescape
func joinSSE4(dst, planes *byte, stride, groups int)

// joinSSE8 joins eight values of eight bytes at a time, groups of them, 1 or more.
//
//go:noescape
func joinSSE8(dst, planes *byte, stride, groups int)
