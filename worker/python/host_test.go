package python

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// worker runs a pool in this process, of which a test is the parent, and has a function leave children. It says which
// processes there are, and waits to be killed.
func worker(path string) {
	interpreter, err := exec.LookPath("python")
	if err == nil {
		err = bundle(interpreter)
	}
	if err == nil {
		err = runs(path)
	}
	fmt.Println("failed:", err)
}

func runs(path string) error {
	p, err := New(config(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	go p.Run(context.Background())
	o := op{name: "forks", in: []spec.Type{strings_}, out: []spec.Type{int64s}}
	f, err := o.try(p)
	if err != nil {
		return err
	}
	c := callOf(o.out, words(path))
	if err := f.Call(context.Background(), c); err != nil {
		return err
	}
	var child int
	for q := range p.processes {
		child = q.child.number()
	}
	fmt.Println("running:", child, c.Out[0].I64[0])
	select {}
}

// No process outlives a worker that is killed: neither those that it started nor what these forked.
func TestProcessesEndWithTheirWorker(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "TEST_HOST="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 200)
	n, _ := out.Read(said)
	numbers, ok := strings.CutPrefix(strings.TrimSpace(string(said[:n])), "running: ")
	if err := cmd.Process.Kill(); err != nil || !ok {
		t.Errorf("%q: %v", said[:n], err)
	}
	_ = cmd.Wait()
	for _, number := range strings.Fields(numbers) {
		pid, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		awaitNone(t, pid)
	}
}

// awaitNone waits until there is no such process, or it is dead and nobody has asked for it.
func awaitNone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if syscall.Kill(pid, 0) != nil || strings.Contains(stateOf(pid), "zombie") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there: %s", pid, stateOf(pid))
		}
	}
}

func stateOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "State:") {
			return line
		}
	}
	return ""
}

// When Run returns no process is left, those included that functions have forked.
func TestRunLeavesNoProcess(t *testing.T) {
	p, stop := running(t, func(*Config, *times) {})
	o := op{name: "forks", in: []spec.Type{strings_}, out: []spec.Type{int64s}}
	f := o.open(t, p)
	c := callOf(o.out, words(t.TempDir()))
	if err := f.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	pids := []int{int(c.Out[0].I64[0])}
	for q := range p.processes {
		pids = append(pids, q.child.number())
	}
	p.mu.Unlock()
	if len(pids) != 2 || syscall.Kill(pids[0], 0) != nil {
		t.Fatalf("processes %v", pids)
	}
	stop()
	for _, pid := range pids {
		awaitNone(t, pid)
	}
	if len(p.processes) > 0 || p.CPU() == 0 {
		t.Errorf("%d processes, that have taken %v", len(p.processes), p.CPU())
	}
	if err := f.Call(t.Context(), c); err == nil || !strings.Contains(err.Error(), "it ends") {
		t.Errorf("a call of a pool that has ended: %v", err)
	}
}

// Idle processes end after a while, and before when there are too many.
func TestIdleProcessesEnd(t *testing.T) {
	p, _ := running(t, func(c *Config, w *times) { c.Processes, w.idle = 1, time.Hour })
	number := func(o op) int {
		o.name, o.in, o.out = "pid", []spec.Type{int64s}, []spec.Type{int64s}
		f := o.open(t, p)
		c := callOf(o.out, numbered(1))
		if err := f.Call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return int(c.Out[0].I64[0])
	}
	first, second, again := number(op{from: "a"}), number(op{from: "b"}), number(op{from: "a"})
	if first != again || first == second {
		t.Errorf("processes %d, %d for one namespace and %d for another", first, again, second)
	}
	third := number(op{from: "a", more: func(f *pb.Function) { f.Threads = 2 }})
	awaitNone(t, second) // which was idle for longest
	if syscall.Kill(first, 0) != nil || slices.Contains([]int{first, second}, third) {
		t.Errorf("processes %d and %d", first, third)
	}
	p.look(time.Now().Add(2 * time.Hour))
	awaitNone(t, first)
	awaitNone(t, third)
}
