// Package process runs penstock commands as child processes, for whoever keeps a fleet on one machine: `penstock
// local`, a master that scales, bench/cluster. It holds each child's standard input open, and the child watches that,
// so that it never outlives its parent, however that dies.
//
// A Process may be used by many goroutines at once; one goroutine of its own follows it until its end. Whoever
// started it must see to that end: Stop it, or Kill it and Wait.
package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// stopTimeout is how long a process may take to end after it was asked to, before it is killed.
const stopTimeout = 15 * time.Second

// Config says what to run.
type Config struct {
	// Name is what errors call the process.
	Name string
	// Binary is a penstock binary, and Args a command of it with its flags. --output json and --end-with-stdin are
	// added.
	Binary string
	Args   []string
	// Env is added to this process's environment ("NAME=value"). The settings of the user's own fleet are left out of
	// that: none but storage's and those of logs reach the child.
	Env []string
	// Log is the file that takes what the process writes to its standard error, after what is there.
	Log string
}

// Announcement is what a command that serves prints on one line when it is up.
type Announcement struct {
	Address string `json:"address"`
	Gossip  string `json:"gossip"`
	HTTP    string `json:"http,omitempty"`
	// TokenFile is a local fleet's.
	TokenFile string `json:"token_file,omitempty"`
}

// Process is a running penstock command.
type Process struct {
	Name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   *os.File
	lines chan []byte
	// up is closed once announcement is set.
	up           chan struct{}
	announcement Announcement
	done         chan struct{}
	err          error // set before done is closed
	killed       atomic.Bool
}

// Start runs a command. It has a process group of its own, so that an interrupt from the terminal reaches its parent
// alone, which ends it in order.
func Start(cfg Config) (p *Process, err error) {
	p = &Process{Name: cfg.Name, lines: make(chan []byte, 64), up: make(chan struct{}), done: make(chan struct{})}
	args := append(slices.Clone(cfg.Args), "--output=json", "--end-with-stdin")
	p.cmd = exec.Command(cfg.Binary, args...) //nolint:noctx // Stop and Kill end it, not a context
	p.cmd.Env = append(environment(os.Environ()), cfg.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.log, err = os.OpenFile(cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("process: log of %s: %w", cfg.Name, err)
	}
	p.cmd.Stderr = p.log
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process: start %s: %w", cfg.Name, err), p.log.Close())
	}
	go p.follow(stdout)
	return p, nil
}

// environment is what a child inherits.
func environment(own []string) []string {
	return slices.DeleteFunc(own, func(v string) bool {
		return strings.HasPrefix(v, "PENSTOCK_") && !strings.HasPrefix(v, "PENSTOCK_LOG_") &&
			!strings.HasPrefix(v, "PENSTOCK_STORAGE_") && !strings.HasPrefix(v, "PENSTOCK_CATALOG_")
	})
}

// follow owns the process: it reads its output and waits for its end.
func (p *Process) follow(stdout io.Reader) {
	defer close(p.done)
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, 16<<20)
	announced := false
	for scanner.Scan() {
		line := bytes.Clone(scanner.Bytes())
		if !announced && json.Unmarshal(line, &p.announcement) == nil && p.announcement.Address != "" {
			announced = true
			close(p.up)
			continue
		}
		p.lines <- line
	}
	close(p.lines)
	_, _ = io.Copy(io.Discard, stdout) // after a line that is too long; else there is nothing
	err := errors.Join(scanner.Err(), p.cmd.Wait(), p.log.Close())
	if err != nil && !p.killed.Load() {
		p.err = fmt.Errorf("%s: %w; its log, %s, ends with:\n%s", p.Name, err, p.log.Name(), tail(p.log.Name()))
	}
}

// Announced waits until the process says that it is up.
func (p *Process) Announced(ctx context.Context) (Announcement, error) {
	select {
	case <-p.up:
		return p.announcement, nil
	case <-p.done:
		return Announcement{}, errors.Join(fmt.Errorf("process: %s ended before it was up", p.Name), p.err)
	case <-ctx.Done():
		return Announcement{}, fmt.Errorf("process: wait for %s: %w", p.Name, ctx.Err())
	}
}

// Lines yields what the process prints besides its announcement; it is closed at its end. A command that prints
// must be read.
func (p *Process) Lines() <-chan []byte { return p.lines }

// Kill sends SIGKILL.
func (p *Process) Kill() error {
	p.killed.Store(true)
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("process: kill %s: %w", p.Name, err)
	}
	return nil
}

// Signal sends a signal, such as SIGSTOP.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// PID is the system's number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Wait waits for the process's end and returns why it failed, if it did and was not killed by Kill.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status says how the process ended, such as "exit status 1" or "signal: killed", and is "" before.
func (p *Process) Status() string {
	select {
	case <-p.done:
		return p.cmd.ProcessState.String()
	default:
		return ""
	}
}

// Stop asks the process to end, waits, and kills it if it does not.
func (p *Process) Stop() error {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	go func() {
		for range p.lines { //nolint:revive // what it still prints is of no interest
		}
	}()
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("process: %s did not stop within %v", p.Name, stopTimeout), p.Kill(), p.Wait())
	}
	return p.err
}

// PeakMemory is the largest resident set of the process in bytes, known after its end, and 0 before.
func (p *Process) PeakMemory() int64 {
	select {
	case <-p.done:
	default:
		return 0
	}
	usage, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return maxRSS(usage)
}

// tail returns the end of a log.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	_, _ = f.Seek(-4096, io.SeekEnd) // fails, and stays at the beginning, if there is less
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
