package vector

import "sync"

// MaxCounted is how many lists' offsets are there for good: as many as windows have rows by default.
const MaxCounted = 1 << 16

// Counting is the offsets of n lists of one element each: 0, 1, ... n. Up to MaxCounted they are shared: nobody writes
// them.
func Counting(n int) []int32 {
	if n <= MaxCounted {
		return counted()[: n+1 : n+1]
	}
	return count(n)
}

var counted = sync.OnceValue(func() []int32 { return count(MaxCounted) }) //nolint:gochecknoglobals // a constant

func count(n int) []int32 {
	out := make([]int32, n+1)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}
