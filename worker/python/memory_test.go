package python

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
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
