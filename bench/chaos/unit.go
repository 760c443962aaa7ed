package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-ml/penstock/internal/process"
)

// restartAfter is how long the supervisor waits before it starts a process again that ended by itself.
const restartAfter = 300 * time.Millisecond

// unit is a process of the fleet at its place, with a supervisor: it is started again when it ends, as those of a real
// fleet are, but not before a fault that killed it is over.
type unit struct {
	name string
	// launch starts the process; lean asks for one with little memory.
	launch func(lean bool) (*process.Process, error)
	// ended is told of a process that ended by itself.
	ended func(name, status string)

	// turn holds one token, for the fault that has the unit.
	turn chan struct{}
	// changed wakes the supervisor.
	changed chan struct{}

	mu         sync.Mutex
	process    *process.Process
	ending     *process.Process // that a fault ended
	down, lean bool
}

func newUnit(name string, launch func(bool) (*process.Process, error), ended func(string, string)) *unit {
	u := &unit{name: name, launch: launch, ended: ended, turn: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	u.turn <- struct{}{}
	return u
}

// take waits until no other fault has the unit.
func (u *unit) take(ctx context.Context) error {
	select {
	case <-u.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u *unit) leave() { u.turn <- struct{}{} }

// keep supervises the unit until ctx ends, and then ends the process.
func (u *unit) keep(ctx context.Context) error {
	for ctx.Err() == nil {
		p, err := u.ensure()
		if err != nil {
			return err
		}
		var gone <-chan struct{}
		if p != nil {
			gone = p.Done()
		}
		select {
		case <-ctx.Done():
		case <-u.changed:
		case <-gone:
			if byItself := u.forget(p); byItself {
				u.ended(u.name, p.Status())
				pause(ctx, restartAfter)
			}
		}
	}
	return u.end()
}

// ensure starts the process if it should run and does not.
func (u *unit) ensure() (*process.Process, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.process == nil && !u.down {
		p, err := u.launch(u.lean)
		if err != nil {
			return nil, err
		}
		u.process = p
		go discard(p)
	}
	return u.process, nil
}

// discard reads what a process prints; its log is elsewhere.
func discard(p *process.Process) {
	for range p.Lines() { //nolint:revive // see above
	}
}

// forget lets go of a process that has ended, and reports whether no fault ended it.
func (u *unit) forget(p *process.Process) (byItself bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.process = nil
	return u.ending != p
}

func (u *unit) running() *process.Process {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.process
}

// kill ends the process with SIGKILL and keeps it down until start.
func (u *unit) kill() error { return u.stop(syscall.SIGKILL) }

// stop sends a signal that ends the process, waits for that, and keeps it down until start.
func (u *unit) stop(s syscall.Signal) error {
	u.mu.Lock()
	u.down, u.ending = true, u.process
	p := u.process
	u.mu.Unlock()
	if p == nil {
		return nil
	}
	if s == syscall.SIGKILL {
		if err := p.Kill(); err != nil {
			return err
		}
	} else if err := signalGroup(p, s); err != nil {
		return err
	}
	select {
	case <-p.Done():
		return nil
	case <-time.After(endTimeout):
		return errors.Join(fmt.Errorf("chaos: %s did not end within %v of a %v", u.name, endTimeout, s), p.Kill())
	}
}

// endTimeout is how long a process may take to end in order.
const endTimeout = 40 * time.Second

// start lets the process run again.
func (u *unit) start() { u.restart(false) }

func (u *unit) restart(lean bool) {
	u.mu.Lock()
	u.down, u.lean = false, lean
	u.mu.Unlock()
	select {
	case u.changed <- struct{}{}:
	default:
	}
}

// signal sends a signal to the process and those that it started; one that does not run is no error.
func (u *unit) signal(s syscall.Signal) error {
	if p := u.running(); p != nil {
		return signalGroup(p, s)
	}
	return nil
}

func signalGroup(p *process.Process, s syscall.Signal) error {
	select {
	case <-p.Done():
		return nil
	default:
	}
	if err := syscall.Kill(-p.PID(), s); err != nil && !errors.Is(err, os.ErrProcessDone) &&
		!errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("chaos: signal %v to %s: %w", s, p.Name, err)
	}
	return nil
}

// end ends the process for good.
func (u *unit) end() error {
	p := u.running()
	if p == nil {
		return nil
	}
	err := p.Kill()
	<-p.Done()
	return err
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
