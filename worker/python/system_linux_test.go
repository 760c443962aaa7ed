package python

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/internal/shared"
)

// What a process has counts once, though it forks children, and what these have of their own counts besides.
func TestMemoryOfForks(t *testing.T) {
	const mib = 1 << 20
	cmd := exec.CommandContext(t.Context(), "python", "-c", `
import os, sys
mine = bytearray(100 << 20)
mine[::4096] = b"x" * len(mine[::4096])
children = []
for _ in range(2):
    r, w = os.pipe()
    if os.fork() == 0:
        own = bytearray(50 << 20)
        own[::4096] = b"x" * len(own[::4096])
        os.write(w, b"y")
        sys.stdin.read()
        os._exit(0)
    os.read(r, 1)
os.write(1, b"y")
sys.stdin.read()
`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.ReadFull(out, make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	if has := memoryOf(cmd.Process.Pid, 0, 250*mib, false); has < 195*mib || has > 250*mib {
		t.Errorf("%d MiB, of 100 and twice 50", has/mib)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// What a process has mapped of the worker's counts, even if that may not be seen: it may hide, or be another user's.
func TestHiddenMemoryCounts(t *testing.T) {
	if err := mayChangeUsers(); err != nil {
		t.Skip(err)
	}
	const size = 8 << 20
	m, err := shared.Workspace(size, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", m.File()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.CommandContext(t.Context(), "python", "-c", `import ctypes, mmap, sys
segment = mmap.mmap(3, 8 << 20)
segment[:] = bytes(8 << 20)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
print(flush=True)
sys.stdin.read()`)
	cmd.ExtraFiles = []*os.File{file}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	without(t, func() {
		alone := memoryOf(cmd.Process.Pid, 1<<40, 1<<40, true)
		if has := memoryOf(cmd.Process.Pid, 0, 1<<40, true) - alone; has < size || has > size+1<<20 {
			t.Errorf("%d bytes of it count, want %d", has, size)
		}
	}, unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}
