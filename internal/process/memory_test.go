package process

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestMemory(t *testing.T) {
	const machine = "MemFree: 1 kB\nMemTotal:       4194304 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"the machine": {map[string]string{"proc/meminfo": machine}, 4 << 30},
		"a container": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, 1 << 30},
		"no limit": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "max\n",
		}, 4 << 30},
		"above it": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "65536\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
		}, 64 << 10},
		"version 1": {map[string]string{
			"proc/meminfo":     machine,
			"proc/self/cgroup": "5:memory:/x\n4:cpuacct,cpu:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2097152\n",
		}, 2 << 20},
		"v1, no limit": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "5:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 4 << 30},
		"garbage": {map[string]string{
			"proc/meminfo": machine, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "-5 x",
		}, 4 << 30},
		"less garbage": {map[string]string{"proc/meminfo": "MemTotal: x kB\nMemTotal: 99999999999999999 kB\n"}, 0},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := Memory(root); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// What is set aside is there at once: the runtime gives back what it has that is free, or garbage.
func TestSetAside(t *testing.T) {
	const size = 64 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	garbage := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		garbage[i] = 1
	}
	runtime.KeepAlive(garbage)
	limit := ReadRuntime().All + size/4
	debug.SetMemoryLimit(limit)
	SetAside(size / 2)
	defer SetAside(-size / 2)
	if all := ReadRuntime().All; all+size/2 > limit {
		t.Errorf("the runtime has %d bytes beside the %d that were set aside; the limit is %d", all, size/2, limit)
	}
}
