package python

import (
	"errors"
	"maps"
	"os/exec"
	"sync"
	"syscall"
)

// own are the processes that this one has started for functions. What they leave becomes its child, and is told from
// them by not being one of these.
var own = &family{pids: map[int]struct{}{}} //nolint:gochecknoglobals // children are a process's, whoever starts them

// family is the children of a process. While what was left is looked for none is started, nor is a number given up.
type family struct {
	mu   sync.Mutex
	pids map[int]struct{}
}

func (f *family) start(cmd *exec.Cmd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	f.pids[cmd.Process.Pid] = struct{}{}
	return nil
}

// wait takes leave of one that has ended.
func (f *family) wait(cmd *exec.Cmd) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = cmd.Wait() // how it ended is in its state
	delete(f.pids, cmd.Process.Pid)
}

// sweep ends what processes that have ended leave: programs that functions started, whatever group or session these
// have gone to, and what those have started.
func (f *family) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	apart := maps.Clone(f.pids)
	for {
		left := orphans(apart)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			if errors.Is(syscall.Kill(pid, syscall.SIGKILL), syscall.EPERM) {
				apart[pid] = struct{}{} // of another user, such as a debugger's in this container: no function's
				continue
			}
			_, _ = syscall.Wait4(pid, nil, 0, nil) // until it has left its own
		}
	}
}
