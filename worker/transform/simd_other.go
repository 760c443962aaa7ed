//go:build !amd64

package transform

// There are no other kernels than those of plain Go.

func hashInts[S int32 | int64](dst []int64, src []S, p *hashParams) { hashPlain(dst, src, p) }

func logs32(dst, src []float32) { logsPlain(dst, src) }

func bucketFloat32(dst []int32, src []float32, table *borderTable[int32]) {
	bucketsPlain(dst, src, table)
}

func clampFloat32(dst, src []float32, low, high float32) { clampPlain(dst, src, low, high) }

func standardizeFloat32(dst, src []float32, mean, std float32) {
	standardizePlain(dst, src, mean, std)
}
