package python

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// local starts processes on this machine. They end with the thread that starts them.
type local struct {
	interpreter string
	path        []string
}

func (h *local) start(l launch) (child, error) {
	cmd := exec.Command(h.interpreter, "-m", "penstock._op_child") //nolint:noctx // it lives on from call to call
	cmd.Env = environment(h.path, l.threads)
	cmd.Stdout, cmd.Stderr = l.prints, l.prints
	cmd.ExtraFiles = []*os.File{l.socket}
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &localChild{cmd: cmd}, nil
}

// environment is what a child gets: nothing of the fleet's.
func environment(path []string, threads int) []string {
	env := []string{
		"LANG=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONSAFEPATH=1", fmt.Sprint("TOKENIZERS_PARALLELISM=", threads > 1),
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
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
	cmd *exec.Cmd

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
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.number(), syscall.SIGKILL)
	_ = c.cmd.Wait() // how it ended is in its state
	c.gone = true
	state := c.cmd.ProcessState
	e := exit{status: state.ExitCode(), cpu: state.UserTime() + state.SystemTime()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.signal = status.Signal()
	}
	return e
}

func (c *localChild) memory(s share) int64 { return memoryOf(c.number(), s.bytes, s.limit, s.keeps) }

func (c *localChild) cpu() time.Duration { return cpuOf(c.number()) }
