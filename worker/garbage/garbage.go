// Package garbage collects before large allocations, where the process would pass its memory limit. The collector keeps
// to the limit (runtime/debug.SetMemoryLimit) at its own pace: slices as large as what is left are there before it has
// begun. It may be used by any number of goroutines.
package garbage

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/penstock-ml/penstock/internal/process"
)

// large is from where on an allocation is looked at. Smaller ones leave the collector time.
const large = 16 << 20

// expected is what the process's memory holds, dead or alive, once all is allocated that there was made room for since
// it was collected last.
var expected struct { //nolint:gochecknoglobals // of the runtime, of which there is one
	sync.Mutex
	bytes  int64
	cycles uint64
}

// MakeRoom collects if the process's memory, with what is dead and n bytes more, would pass its limit. It is called
// before n bytes are allocated that are counted already, and where nothing is counted any more of what they replace.
func MakeRoom(n int64) {
	if n < large {
		return
	}
	expected.Lock()
	defer expected.Unlock()
	now := process.ReadRuntime()
	if expected.cycles != now.Cycles {
		expected.bytes, expected.cycles = 0, now.Cycles
	}
	expected.bytes = max(expected.bytes, used(now)) + n
	if expected.bytes > debug.SetMemoryLimit(-1) {
		runtime.GC()
		now = process.ReadRuntime()
		expected.bytes, expected.cycles = used(now)+n, now.Cycles
	}
}

// used is what the process's memory holds, dead or alive.
func used(r process.Runtime) int64 { return r.All - r.Free }
