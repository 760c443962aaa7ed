package python

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// local starts processes on this machine.
type local struct {
	interpreter string
	path        []string
	thread      thread
	users       *users
}

func newLocal(e Environment, t thread, u *users) *local { return &local{e.Interpreter, e.Path, t, u} }

func (h *local) start(l launch) (child, error) {
	t, err := h.users.enter(l.namespace)
	if err != nil {
		return nil, err
	}
	c := &localChild{tenant: t}
	c.cmd = exec.Command(h.interpreter, "-m", "penstock._op_child") //nolint:noctx // it lives on from call to call
	c.cmd.Env = environment(h.path, l.threads, t.home)
	c.cmd.Stdout, c.cmd.Stderr = l.prints, l.prints
	c.cmd.ExtraFiles = []*os.File{l.socket}
	c.cmd.SysProcAttr = attributes(t.id)
	if err := h.thread.do(func() error { return own.start(c.cmd) }); err != nil {
		t.leave()
		if t.id != 0 && errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: user %d of --python-users may not run it; let all users read and run the "+
				"interpreter, its packages, and the folders above them", err, t.id)
		}
		return nil, err
	}
	return c, nil
}

// thread runs what it is given on one thread of the system: processes end with the thread that has started them.
type thread struct {
	work chan func()
	over chan struct{}
}

func newThread() thread { return thread{make(chan func()), make(chan struct{})} }

// run runs what is given to do, until end is called.
func (t thread) run() {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	forgo()
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.over:
			return
		}
	}
}

func (t thread) end() { close(t.over) }

func (t thread) do(f func() error) error {
	done := make(chan error, 1)
	select {
	case t.work <- func() { done <- f() }:
		return <-done
	case <-t.over:
		return errClosed
	}
}

// environment is what a child gets: nothing of the fleet's. home, if there is one, is its own folder.
func environment(path []string, threads int, home string) []string {
	env := []string{
		"LANG=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONSAFEPATH=1", fmt.Sprint("TOKENIZERS_PARALLELISM=", threads > 1),
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"} {
		value, ok := os.LookupEnv(name)
		if home != "" && (name == "HOME" || name == "TMPDIR") {
			value, ok = home, true
		}
		if ok {
			env = append(env, name+"="+value)
		}
	}
	if len(path) > 0 {
		env = append(env, "PYTHONPATH="+strings.Join(path, string(os.PathListSeparator)))
	}
	for _, library := range []string{"OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON"} {
		env = append(env, fmt.Sprintf("%s_NUM_THREADS=%d", library, threads))
	}
	return append(env, fmt.Sprintf("POLARS_MAX_THREADS=%d", threads))
}

// localChild is a process on this machine.
type localChild struct {
	cmd    *exec.Cmd
	tenant *tenant

	// mu keeps signals from a process that another has the number of.
	mu   sync.Mutex
	gone bool
}

func (c *localChild) number() int { return c.cmd.Process.Pid }

func (c *localChild) kill() { c.signal(-c.number(), syscall.SIGKILL) }

func (c *localChild) interrupt() { c.signal(c.number(), syscall.SIGINT) }

func (c *localChild) signal(whom int, what syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		_ = syscall.Kill(whom, what) // it may have ended just now
	}
}

func (c *localChild) wait() exit {
	_ = awaitEnd(c.number())
	c.end()
	own.sweep()
	c.tenant.leave()
	state := c.cmd.ProcessState
	e := exit{status: state.ExitCode(), cpu: state.UserTime() + state.SystemTime()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	return e
}

// end ends what a dead process has left of its group, and gives up its number.
func (c *localChild) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.number(), syscall.SIGKILL)
	own.wait(c.cmd)
	c.gone = true
}

func (c *localChild) memory(s share) int64 { return memoryOf(c.number(), s.bytes, s.limit, s.keeps) }

func (c *localChild) cpu() time.Duration { return cpuOf(c.number()) }
