package figures

import (
	"os"
	"os/exec"
	"testing"
)

// A process's clock is this one's own account, and counts in less than the kernel's ticks.
func TestCPUSecondsOf(t *testing.T) {
	before := CPUSeconds()
	got, err := CPUSecondsOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if after := CPUSeconds(); got < before-0.001 || got > after+0.001 {
		t.Errorf("this process has taken %v s, by its own account between %v and %v", got, before, after)
	}
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := CPUSecondsOf(ended.Process.Pid); err == nil {
		t.Error("a process that has ended has CPU time")
	}
}
