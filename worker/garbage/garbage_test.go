package garbage

import (
	"runtime/debug"
	"testing"

	"github.com/penstock-ml/penstock/internal/process"
)

// A slice that grows never passes the limit, which its last copy and the one before just fit into.
func TestMakeRoom(t *testing.T) {
	const largest, slack = 256 << 20, 16 << 20
	limit := used(process.ReadRuntime()) + 2*largest + slack
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for range 2 {
		kept := make([]byte, large)
		for n := int64(large); n < largest; n += n / 8 {
			MakeRoom(n)
			next := make([]byte, n)
			copy(next, kept)
			if at := used(process.ReadRuntime()); at > limit {
				t.Fatalf("with a slice of %d MiB, %d are used of a limit of %d", n>>20, at>>20, limit>>20)
			}
			kept = next
		}
	}
}

// Room that was made for one is not there for another.
func TestMakeRoomForSeveral(t *testing.T) {
	debug.FreeOSMemory()
	before := process.ReadRuntime()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(used(before) + 3*large))
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	MakeRoom(large)
	MakeRoom(large)
	if now := process.ReadRuntime(); now.Cycles != before.Cycles {
		t.Errorf("it collected %d times where there was room", now.Cycles-before.Cycles)
	}
	MakeRoom(large)
	MakeRoom(large)
	if now := process.ReadRuntime(); now.Cycles == before.Cycles {
		t.Error("the room of two was given to four")
	}
}
