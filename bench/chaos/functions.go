package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// What --functions needs of a Python.
const functionsNeed = "penstock, pyarrow, cloudpickle"

// killEvery is how often a fault kills a process, for as long as it lasts. A process takes longer to start.
const killEvery = 100 * time.Millisecond

// endOfFunctions is how long processes of functions may be there after their workers were killed.
const endOfFunctions = 10 * time.Second

//go:embed functions.py
var functionsModule string

// functionsName is the module's.
const functionsName = "chaos_functions"

// called is what trainers in Go open a session with that calls functions. Those in Python make it themselves, of the
// same module.
type called struct {
	Spec json.RawMessage `json:"spec"` // the part of a Spec that is of functions
	Code []byte          `json:"code"`
}

// makeFunctions has Python make it.
func (f *fleet) makeFunctions(ctx context.Context) error {
	for _, dir := range []string{f.moduleDir(), f.markDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	module := filepath.Join(f.moduleDir(), functionsName+".py")
	if err := os.WriteFile(module, []byte(functionsModule), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, f.python, "-c", "import "+functionsName+" as f; f.show()") //nolint:gosec // as asked for
	cmd.Env = append(os.Environ(), f.modulePath())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("chaos: functions: %w\n%s", err, errs.String())
	}
	f.called = &called{}
	return json.Unmarshal(out, f.called)
}

// moduleDir is where trainers in Python find the module. Workers do not: its code comes to them.
func (f *fleet) moduleDir() string { return filepath.Join(f.dir, "module") }

// modulePath is what lets them.
func (f *fleet) modulePath() string {
	path := "PYTHONPATH=" + f.moduleDir()
	if had := os.Getenv("PYTHONPATH"); had != "" {
		path += string(os.PathListSeparator) + had
	}
	return path
}

// markDir is an empty folder, by which the processes of functions of this run are known: it is in their environment.
func (f *fleet) markDir() string { return filepath.Join(f.dir, "of-functions") }

// workerFlags have a worker run functions.
func (f *fleet) workerFlags() []string {
	if !f.functions {
		return nil
	}
	return []string{"--code=by-value", "--python=default=" + f.python, "--python-path=default=" + f.markDir()}
}

// masterFlags have a master take them.
func (f *fleet) masterFlags() []string {
	if !f.functions {
		return nil
	}
	return []string{"--code=by-value"}
}

// whole is a spec, with what it has of functions.
func (c *called) whole(text string) (*pb.Spec, error) {
	s, err := spec.Parse([]byte(text))
	if err != nil || c == nil {
		return s, err
	}
	var more pb.Spec
	if err := protojson.Unmarshal(c.Spec, &more); err != nil {
		return nil, fmt.Errorf("chaos: functions: %w", err)
	}
	proto.Merge(s, &more) // their transforms come last
	return s, nil
}

// parse sets Parsed where it is needed.
func (s *start) parse() error {
	if s.Functions == nil {
		return nil
	}
	message, err := spec.Parse([]byte(s.Spec))
	if err != nil {
		return err
	}
	s.Parsed, err = protojson.Marshal(message)
	return err
}

// marked is what the function makes of a row, as functions.py has it.
func marked(v values) values {
	v.x /= 2
	v.ids = append([]int64{v.key}, v.ids...)
	return v
}

// doFunctions does it to processes of functions of a worker.
func (s *storm) doFunctions(ctx context.Context, f Fault, u *unit) error {
	if f.Kind == "hang" { // nobody lets them go on: a call's time is over at some time. A start may take longer.
		_, err := s.fleet.signalFunctions(u, syscall.SIGSTOP, func(all []int) []int {
			return slices.DeleteFunc(all, func(pid int) bool { return !wasCalled(pid) })
		})
		return err
	}
	for end := time.Now().Add(f.For); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, killEvery) {
		n, err := s.fleet.signalFunctions(u, syscall.SIGKILL, func(all []int) []int {
			at := f.Number % len(all)
			return all[at : at+1]
		})
		if err != nil {
			return err
		}
		if n > 0 && f.Number%2 == 0 { // only one
			return nil
		}
	}
	return nil
}

// signalFunctions sends a signal to some of a worker's processes, if there are any, and counts them.
func (f *fleet) signalFunctions(u *unit, sig syscall.Signal, choose func([]int) []int) (n int, err error) {
	p := u.running()
	if p == nil {
		return 0, nil
	}
	var all []int
	for pid, parent := range f.functionProcesses() {
		if parent == p.PID() {
			all = append(all, pid)
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	for _, pid := range choose(all) {
		err := syscall.Kill(pid, sig)
		switch {
		case err == nil:
			n++
		case !errors.Is(err, syscall.ESRCH):
			return n, fmt.Errorf("chaos: signal %v to a process of functions: %w", sig, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hit[sig] += n
	return n, nil
}

// functionProcesses are the processes of functions of this run, each with its parent.
func (f *fleet) functionProcesses() map[int]int {
	out := map[int]int{}
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, proc := range all {
		environ, err := os.ReadFile(filepath.Join(proc, "environ"))
		if err != nil || !bytes.Contains(environ, []byte("PYTHONPATH="+f.markDir()+"\x00")) {
			continue // it has ended, or is another's
		}
		status, err := os.ReadFile(filepath.Join(proc, "status"))
		if pid, wrong := strconv.Atoi(filepath.Base(proc)); err == nil && wrong == nil {
			out[pid] = int(field(bytes.NewReader(status), "PPid:"))
		}
	}
	return out
}

// wasCalled reports whether a process has called the function, which says so by its name.
func wasCalled(pid int) bool {
	name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
	return err == nil && string(name) == "called\n"
}

// checkFunctions holds that no process of functions is left when all workers have ended.
func (f *fleet) checkFunctions() error {
	var left map[int]int
	for end := time.Now().Add(endOfFunctions); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = f.functionProcesses(); len(left) == 0 {
			return nil
		}
	}
	return fmt.Errorf("processes of functions are left, with their parents: %v", left)
}
