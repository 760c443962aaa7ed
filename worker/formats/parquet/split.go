package parquet

// joinPlanes puts values of width bytes together whose k-th bytes stand at planes[k*stride:], as many as fit dst.
func joinPlanes(dst, planes []byte, stride, width int) {
	n := len(dst) / width
	done := joinVector(dst, planes, stride, width, n)
	joinSlow(dst[done*width:], planes[done:], stride, width)
}

// joinSlow does so byte by byte.
func joinSlow(dst, planes []byte, stride, width int) {
	n := len(dst) / width
	if n == 0 {
		return
	}
	for k := range width {
		plane := planes[k*stride:][:n]
		for i, b := range plane {
			dst[i*width+k] = b
		}
	}
}
