package process

import (
	"testing"
	"testing/fstest"
)

func TestMemory(t *testing.T) {
	const machine = "MemFree: 1 kB\nMemTotal:       4194304 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"the machine":  {map[string]string{"proc/meminfo": machine}, 4 << 30},
		"a container":  {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		"no limit":     {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 4 << 30},
		"above it":     {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "65536\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 64 << 10},
		"version 1":    {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "5:memory:/x\n4:cpuacct,cpu:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2097152\n"}, 2 << 20},
		"v1, no limit": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4 << 30},
		"garbage":      {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "-5 x"}, 4 << 30},
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
