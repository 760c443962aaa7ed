// Package figures is what benchmarks share: the CPU time of this process, and results written as a page for people and as JSON
// for programs, and charts. It keeps no state.
package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// CPUSeconds is the CPU time that this process has taken so far, of the user and of the system.
func CPUSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails for wrong arguments only
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// ticks is how many of proc's units of time make a second, on all of Linux's machines.
const ticks = 100

// CPUSecondsOf reads what proc(5) says of a process: its times are fields 14 and 15, counted from 1, and the second field,
// which is in parentheses, may have spaces.
func CPUSecondsOf(pid int) (seconds float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("ask for a process's CPU time: %w", err)
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("ask for a process's CPU time: %w", err)
		}
		seconds += float64(n) / ticks
	}
	return seconds, nil
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
