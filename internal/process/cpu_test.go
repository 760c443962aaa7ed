package process

import (
	"runtime"
	"testing"
	"testing/fstest"
)

func TestCPUs(t *testing.T) {
	all := float64(runtime.GOMAXPROCS(0))
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"no Linux": {nil, all},
		"in a container": {
			map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"},
			0.5,
		},
		"no limit": {
			map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
			all,
		},
		"more than all": {map[string]string{
			"proc/self/cgroup":      "0::/\n",
			"sys/fs/cgroup/cpu.max": "99900000 1000\n",
		}, all},
		"a limit above it": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "250 1000\n",
			"sys/fs/cgroup/a/b/cpu.max": "max 1000\n",
		}, 0.25},
		"version 1": {map[string]string{
			"proc/self/cgroup":                          "5:memory:/x\n4:cpuacct,cpu:/x\n",
			"sys/fs/cgroup/cpu/x/cpu.cfs_quota_us":      "75000\n",
			"sys/fs/cgroup/cpu/x/cpu.cfs_period_us":     "100000\n",
			"sys/fs/cgroup/memory/x/cpu.cfs_quota_us":   "1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":        "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us":       "100000\n",
			"sys/fs/cgroup/cpu/other/cpu.cfs_quota_us":  "1\n",
			"sys/fs/cgroup/cpu/other/cpu.cfs_period_us": "100000\n",
		}, 0.75},
		"garbage": {map[string]string{"proc/self/cgroup": "0::/\n::\nx", "sys/fs/cgroup/cpu.max": "a b"}, all},
	} {
		root := fstest.MapFS{}
		for path, text := range c.files {
			root[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := CPUs(root); got != c.want {
			t.Errorf("%s: %g processors, want %g", name, got, c.want)
		}
	}
}

func TestCPU(t *testing.T) {
	before := CPU()
	for n := 0; CPU() == before; n++ { // until it has taken some
	}
}
