package vector

import "sync"

// Counting is the offsets of n lists of one element each: 0, 1, ... n. It is shared, and nobody writes it.
func Counting(n int) []int32 {
	if c := counted(); n < len(c) {
		return c[: n+1 : n+1]
	}
	return count(n)
}

// counted is for as many rows as windows have at most.
var counted = sync.OnceValue(func() []int32 { return count(1 << 16) }) //nolint:gochecknoglobals // a constant

func count(n int) []int32 {
	out := make([]int32, n+1)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}
