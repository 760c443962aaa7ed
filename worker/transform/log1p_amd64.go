package transform

// log1p32AVX512 is log1p32 of the first values of n, and stops before eight of which one is an edge or hard.
//
//go:noescape
func log1p32AVX512(dst, src *float32, n int, logs *[128]float64) (done int)

// logs32 is log1p32 of values; dst and src may be the same slice.
func logs32(dst, src []float32) {
	dst = dst[:len(src)]
	for simd.avx512 && len(src) >= 8 {
		n := log1p32AVX512(&dst[0], &src[0], len(src), cellLogs)
		dst, src = dst[n:], src[n:]
		if few := min(8, len(src)); few > 0 {
			logsPlain(dst[:few], src[:few])
			dst, src = dst[few:], src[few:]
		}
	}
	logsPlain(dst, src)
}

// cellLogs are the logarithms of logCells. Assembly computes the rest of a cell.
var cellLogs = func() *[128]float64 { //nolint:gochecknoglobals // constants: nothing writes to them
	logs := new([128]float64)
	for i := range logs {
		logs[i] = logCells[i].log
	}
	return logs
}()
