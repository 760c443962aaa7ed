package python

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/shared"
)

// Idle processes end before one that is to work would have too little memory, and not sooner.
func TestIdleProcessesMakeRoom(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Processes, c.Budget = 2, 500<<20 })
	number := func(namespace string, memory int64) int {
		t.Helper()
		out, err := once(p, op{
			name: "pid", from: namespace, in: []spec.Type{int64s}, out: []spec.Type{int64s},
			more: func(f *pb.Function) { f.Memory = memory },
		}, numbered(1))
		if err != nil {
			t.Fatal(err)
		}
		return int(out.I64[0])
	}
	first, second := number("a", 150<<20), number("b", 150<<20)
	if third := number("a", 150<<20); third != first {
		t.Errorf("process %d ended, though there was room", first)
	}
	large := number("c", 480<<20)
	for _, pid := range []int{first, second} {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is there beside %d", pid, large)
		}
	}
	_, err := op{
		name: "pid", in: []spec.Type{int64s}, out: []spec.Type{int64s},
		more: func(f *pb.Function) { f.Memory = 600 << 20 },
	}.try(p)
	want := "may take 600 MiB, and all processes here 500 together; give the worker more by --python-memory"
	if !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), want) {
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

// A worker may run the code of one namespace alone.
func TestCodeOfOneNamespace(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Namespace = "a" })
	o := op{name: "same", from: "a", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	if _, err := o.try(p); err != nil {
		t.Error(err)
	}
	o.from = "b"
	if _, err := o.try(p); !errors.Is(err, ErrCannotRun) || !strings.Contains(err.Error(), "--code-namespace") {
		t.Error(err)
	}
}
