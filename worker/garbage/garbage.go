// Package garbage collects before large allocations, where the process would pass its memory limit. The collector keeps to the limit
// (runtime/debug.SetMemoryLimit) at its own pace: slices as large as what is left are there before it has begun.
// It may be used by any number of goroutines.
package garbage

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// large is from where on an allocation is looked at. Smaller ones leave the collector time.
const large = 16 << 20

// MakeRoom collects if the process's memory, with what is dead and n bytes more, would pass its limit. It is called before n bytes are
// allocated that are counted already, and where nothing is counted any more of what they replace.
func MakeRoom(n int64) {
	if n < large {
		return
	}
	if used()+n > debug.SetMemoryLimit(-1) {
		runtime.GC()
	}
}

// used is what the process's memory holds, dead or alive.
func used() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64() - sample[1].Value.Uint64() - sample[2].Value.Uint64())
}
