package python

import (
	"bufio"
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
	"github.com/penstock-ml/penstock/worker/vector"
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
	cfg := config(slog.New(slog.DiscardHandler))
	if socket := os.Getenv("TEST_SOCKET"); socket != "" {
		cfg.Environments[Default] = Environment{Socket: socket}
	}
	if err := Hide(); err != nil {
		return err
	}
	p, err := New(cfg)
	if err != nil {
		return err
	}
	go p.Run(context.Background())
	peeked, err := once(p, op{name: "peeks", from: "p", in: []spec.Type{int64s}, out: []spec.Type{strings_}}, numbered(1))
	if err != nil {
		return err
	}
	left, err := once(p, op{name: "leaves", in: []spec.Type{int64s}, out: []spec.Type{int64s}}, numbered(1))
	if err != nil {
		return err
	}
	forked, err := once(p, op{name: "forks", in: []spec.Type{strings_}, out: []spec.Type{int64s}}, words(path))
	if err != nil {
		return err
	}
	fmt.Printf("%s\nrunning: %d %d", peeked.Data, left.I64[0], forked.I64[0])
	for q := range p.processes {
		fmt.Print(" ", q.child.number())
	}
	fmt.Println()
	select {}
}

// once calls an op that has one result.
func once(p *Pool, o op, in *vector.Vector) (*vector.Vector, error) {
	f, err := o.try(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := callOf(o.out, in)
	return c.Out[0], f.Call(context.Background(), c)
}

// killed starts such a worker, kills it, and returns what it has said, and the processes that it had. The first of them
// is a program, which leaves the session.
func killed(t *testing.T, more ...string) (said string, pids []int) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(append(os.Environ(), "TEST_HOST="+t.TempDir()), more...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var numbers string
	for lines := bufio.NewScanner(out); numbers == "" && lines.Scan(); {
		if after, ok := strings.CutPrefix(lines.Text(), "running: "); ok {
			numbers = after
		} else {
			said += lines.Text()
		}
	}
	if err := cmd.Process.Kill(); err != nil || numbers == "" {
		t.Errorf("%q: %v", said, err)
	}
	_ = cmd.Wait()
	for _, number := range strings.Fields(numbers) {
		pid, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return said, pids
}

// No process outlives a worker that is killed: neither those that it started nor what these forked. While it lives they
// cannot read what it has.
func TestProcessesEndWithTheirWorker(t *testing.T) {
	said, pids := killed(t)
	for _, pid := range pids[1:] {
		awaitNone(t, pid)
	}
	_ = syscall.Kill(pids[0], syscall.SIGKILL) // the program does: see docs/internals/functions.md
	own, parents, _ := strings.Cut(said, "; environ Perm")
	if strings.Contains(own, "Error") || parents != "issionError; mem PermissionError; fd/0 PermissionError" {
		t.Errorf("a function reads of itself and of its worker: %s", said)
	}
}

// What a function's program leaves ends with the function's process, whatever session it has gone to.
func TestProgramsEndWithTheirProcess(t *testing.T) {
	p, stop := running(t, func(*Config, *times) {})
	left, err := once(p, op{name: "leaves", in: []spec.Type{int64s}, out: []spec.Type{int64s}}, numbered(1))
	if err != nil || syscall.Kill(int(left.I64[0]), 0) != nil {
		t.Fatalf("process %v: %v", left.I64, err)
	}
	stop()
	if err := syscall.Kill(int(left.I64[0]), 0); err == nil {
		t.Errorf("process %d is still there: %s", left.I64[0], stateOf(int(left.I64[0])))
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
