//go:build !amd64

package transform

func hashInts[S int32 | int64](dst []int64, src []S, p *hashParams) { hashPlain(dst, src, p) }

func logs32(dst, src []float32) { logsPlain(dst, src) }
