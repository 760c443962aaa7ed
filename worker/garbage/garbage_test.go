package garbage

import (
	"runtime/debug"
	"testing"
)

// A slice that grows never passes the limit, which its last copy and the one before just fit into.
func TestMakeRoom(t *testing.T) {
	const largest, slack = 256 << 20, 16 << 20
	limit := used() + 2*largest + slack
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for range 2 {
		kept := make([]byte, large)
		for n := int64(large); n < largest; n += n / 8 {
			MakeRoom(n)
			next := make([]byte, n)
			copy(next, kept)
			if at := used(); at > limit {
				t.Fatalf("with a slice of %d MiB, %d are used of a limit of %d", n>>20, at>>20, limit>>20)
			}
			kept = next
		}
	}
}
