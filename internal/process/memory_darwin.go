package process

import (
	"math"

	"golang.org/x/sys/unix"
)

// hardwareMemory is the machine's memory in bytes, 0 if that is not known.
func hardwareMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil || n > math.MaxInt64 {
		return 0
	}
	return int64(n)
}
