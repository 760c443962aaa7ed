package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/penstock-ml/penstock/internal/process"
)

// A slow process runs for a tenth of the time.
const slowRuns, slowStops = 5 * time.Millisecond, 45 * time.Millisecond

// do carries out a fault on processes, and undoes it when its time is over.
func (s *storm) do(ctx context.Context, f Fault, on []string) error {
	switch f.Class {
	case trainers:
		return s.doTrainers(ctx, f, on)
	case network:
		return s.doNetwork(ctx, f, on[0])
	case functions:
		return s.doFunctions(ctx, f, s.fleet.units[f.Target])
	}
	units := make([]*unit, len(on))
	for i, name := range on {
		units[i] = s.fleet.units[name]
	}
	switch f.Kind {
	case "kill":
		return during(ctx, f.For, each(units, (*unit).kill), each(units, startUnit))
	case "stop", "hang":
		return during(ctx, f.For, each(units, signalWith(syscall.SIGSTOP)), each(units, signalWith(syscall.SIGCONT)))
	case "slow":
		return slow(ctx, f.For, units[0].signal)
	case "drain", "end":
		return during(ctx, f.For, each(units, stopWith(syscall.SIGTERM)), each(units, startUnit))
	case "join":
		leave := stopWith([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[f.Number%2])
		return during(ctx, f.For, each(units, startUnit), each(units, leave))
	case "roll":
		return roll(ctx, units)
	case "squeeze":
		return s.squeeze(ctx, f, units[0])
	case "fill":
		filler := filepath.Join(s.fleet.etcdDir(on[0]), "filler")
		return during(ctx, f.For, func() error { return fill(filler) }, func() error { return os.Remove(filler) })
	}
	return fmt.Errorf("an unknown kind of fault")
}

// during does something, and undoes it after d or when ctx ends.
func during(ctx context.Context, d time.Duration, do, undo func() error) error {
	err := do()
	pause(ctx, d)
	return errors.Join(err, undo())
}

// each does something to all units.
func each(units []*unit, do func(*unit) error) func() error {
	return func() error {
		var errs []error
		for _, u := range units {
			errs = append(errs, do(u))
		}
		return errors.Join(errs...)
	}
}

func startUnit(u *unit) error {
	u.start()
	return nil
}

func signalWith(s syscall.Signal) func(*unit) error {
	return func(u *unit) error { return u.signal(s) }
}

func stopWith(s syscall.Signal) func(*unit) error {
	return func(u *unit) error { return u.stop(s) }
}

// slow lets a process run for a small part of the time only.
func slow(ctx context.Context, d time.Duration, signal func(syscall.Signal) error) error {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		err := during(ctx, slowStops, func() error { return signal(syscall.SIGSTOP) },
			func() error { return signal(syscall.SIGCONT) })
		if err != nil {
			return err
		}
		pause(ctx, slowRuns)
	}
	return nil
}

// upTimeout bounds how long etcd may take to be up, or a worker again, with a master that leads or without.
const upTimeout = 2 * time.Minute

// roll drains and replaces one worker after another, as a rolling upgrade does.
func roll(ctx context.Context, units []*unit) error {
	for _, u := range units {
		if err := u.stop(syscall.SIGTERM); err != nil {
			return err
		}
		u.start()
		if err := u.up(ctx); err != nil {
			return err
		}
	}
	return nil
}

// up waits until the process is up.
func (u *unit) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	for ctx.Err() == nil {
		if p := u.running(); p != nil {
			if _, err := p.Announced(ctx); err == nil {
				return nil
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
	return fmt.Errorf("%s is not up: %w", u.name, ctx.Err())
}

// squeeze replaces a worker by one with little memory and one slot, for a time.
func (s *storm) squeeze(ctx context.Context, f Fault, u *unit) error {
	lean := func() error {
		err := u.stop(syscall.SIGTERM)
		u.restart(true)
		return err
	}
	return during(ctx, f.For, lean, func() error {
		err := u.kill()
		u.start()
		return err
	})
}

// fill takes all room of a file system with a file.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for b := make([]byte, 1<<20); len(b) > 0; b = b[:len(b)/2] { // the last bytes, too
		for err = nil; err == nil; {
			_, err = f.Write(b)
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			return err
		}
	}
	return nil
}

// doTrainers does it to ranks of the job. One that ends takes the whole attempt with it.
func (s *storm) doTrainers(ctx context.Context, f Fault, on []string) error {
	ranks := slices.DeleteFunc(s.job.ranks(), func(p *process.Process) bool { return !slices.Contains(on, p.Name) })
	all := func(do func(*process.Process) error) func() error {
		return func() error {
			var errs []error
			for _, p := range ranks {
				errs = append(errs, do(p))
			}
			return errors.Join(errs...)
		}
	}
	signal := func(sig syscall.Signal) func() error {
		return all(func(p *process.Process) error { return signalGroup(p, sig) })
	}
	switch f.Kind {
	case "kill":
		s.job.next(f.World)
		return all((*process.Process).Kill)()
	case "resize":
		s.job.next(f.World)
		s.job.endAttempt()
		return nil
	case "slow":
		return slow(ctx, f.For, func(sig syscall.Signal) error { return signal(sig)() })
	}
	return during(ctx, f.For, signal(syscall.SIGSTOP), signal(syscall.SIGCONT))
}

// doNetwork does it to the network of one process.
func (s *storm) doNetwork(ctx context.Context, f Fault, name string) error {
	lan := s.fleet.lan
	strike := func() error { return lan.lose(ctx, name) }
	if f.Kind == "cut" {
		var others []string
		if f.Peer != "" {
			others = s.members(f.Peer)
		}
		strike = func() error { return lan.cut(ctx, name, others) }
	}
	return during(ctx, f.For, strike, func() error { return lan.heal(context.WithoutCancel(ctx), name) })
}
