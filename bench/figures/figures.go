// Package figures is what benchmarks share: the CPU time of this process, and results written as a page for people and
// as JSON for programs, and charts. It keeps no state.
package figures

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// CPUSeconds is the CPU time that this process has taken so far, of the user and of the system.
func CPUSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails for wrong arguments only
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// CPUSecondsOf is the CPU time that another process has taken so far, to the nanosecond: its clock is named as by
// clock_getcpuclockid(3).
func CPUSecondsOf(pid int) (seconds float64, err error) {
	const scheduled = 2 // all time on a CPU, of all threads
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("ask for the CPU time of process %d: %w", pid, err)
	}
	return float64(t.Nano()) / 1e9, nil
}

// Write writes name.md, a page, and name.json, of data, into a folder, which it makes if need be.
func Write(dir, name, page string, data any) error {
	text, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s as JSON: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of results: %w", err)
	}
	for file, content := range map[string][]byte{name + ".json": append(text, '\n'), name + ".md": []byte(page)} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	return nil
}
