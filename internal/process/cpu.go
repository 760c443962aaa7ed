package process

import (
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU is the CPU time that this process has taken so far, of the user and of the system.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails for wrong arguments only
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// CPUs is how many processors this process may use: those that Go runs on, or less if its control group, or one above
// that, has a quota. root is the root of the file system.
func CPUs(root fs.FS) float64 {
	cpus := float64(runtime.GOMAXPROCS(0))
	for _, group := range groups(root, "cpu") {
		if quota, ok := quota(root, group); ok {
			cpus = min(cpus, quota)
		}
	}
	return cpus
}

// groups are the folders of this process's control group and of those above it, in version 2 and, for a controller, in
// version 1.
func groups(root fs.FS, controller string) (out []string) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil // not Linux
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		at := ""
		switch controllers := strings.Split(fields[1], ","); {
		case fields[0] == "0":
			at = "sys/fs/cgroup"
		case slices.Contains(controllers, controller):
			at = path.Join("sys/fs/cgroup", controller)
		default:
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			out = append(out, path.Join(at, group))
			if group == "/" {
				break
			}
		}
	}
	return out
}

// quota is how many processors a control group may use, if that is limited.
func quota(root fs.FS, group string) (float64, bool) {
	if text, err := fs.ReadFile(root, path.Join(group, "cpu.max")); err == nil {
		quota, period, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		return ratio(quota, period)
	}
	quota, err := fs.ReadFile(root, path.Join(group, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, false
	}
	period, err := fs.ReadFile(root, path.Join(group, "cpu.cfs_period_us"))
	if err != nil {
		return 0, false
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

func ratio(quota, period string) (float64, bool) {
	a, err := strconv.ParseFloat(quota, 64)
	b, err2 := strconv.ParseFloat(period, 64)
	return a / b, err == nil && err2 == nil && a > 0 && b > 0
}
