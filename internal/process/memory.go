package process

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
)

// Memory is how many bytes of memory this process may use: the machine's, or less if its control group, or one above
// that, has a limit; 0 if that is not known. root is the root of the file system.
func Memory(root fs.FS) int64 {
	lowest := machineMemory(root)
	for _, group := range groups(root, "memory") {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} { // of version 2 and 1
			text, err := fs.ReadFile(root, path.Join(group, name))
			if err != nil {
				continue
			}
			if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
				lowest = min(lowest, limit)
			}
		}
	}
	return lowest
}

// machineMemory is the machine's memory in bytes, 0 if that is not known.
func machineMemory(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return hardwareMemory()
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil && kib > 0 && kib < math.MaxInt64>>10 {
				return kib << 10
			}
		}
	}
	return 0
}

// minLimit is what the runtime's memory limit is at least: below it nothing is done but collect.
const minLimit = 16 << 20

var memoryLimit struct { //nolint:gochecknoglobals // of the runtime, of which there is one
	sync.Mutex       // held while it changes
	above      int64 // by so much it is higher than it should be
}

// RaiseMemoryLimit has the Go runtime's memory limit be so many bytes higher, or lower if they are negative. It leaves
// one alone that the user has set (GOMEMLIMIT), and does nothing where there is none.
func RaiseMemoryLimit(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		moveMemoryLimit(bytes)
	}
}

// SetAside has the limit leave room for so many bytes more that the process holds and the runtime does not know of, or
// for fewer. The runtime gives back what it has too much only as it allocates: where there are more, it is made to at
// once.
func SetAside(bytes int64) {
	moveMemoryLimit(-bytes)
	if bytes > 0 && ReadRuntime().All > debug.SetMemoryLimit(-1) {
		debug.FreeOSMemory()
	}
}

// Runtime is how much memory the Go runtime has of the system's, in bytes, how much of that holds nothing, and how
// often it has collected.
type Runtime struct {
	All, Free int64
	Cycles    uint64
}

// ReadRuntime says what the runtime has now.
func ReadRuntime() Runtime {
	sample := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(sample)
	value := func(i int) uint64 { return sample[i].Value.Uint64() }
	return Runtime{All: int64(value(0) - value(1)), Free: int64(value(2)), Cycles: value(3)}
}

func moveMemoryLimit(bytes int64) {
	if bytes == 0 {
		return
	}
	memoryLimit.Lock()
	defer memoryLimit.Unlock()
	if now := debug.SetMemoryLimit(-1); now < math.MaxInt64 {
		limit := now + bytes - memoryLimit.above
		memoryLimit.above = max(0, minLimit-limit)
		debug.SetMemoryLimit(limit + memoryLimit.above)
	}
}
