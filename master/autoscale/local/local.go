// Package local is the actuator of a fleet on one machine: it runs workers as child processes of the master. A worker
// that dies is replaced, one that is to go drains first, and all end with the master, however that ends: see
// internal/process.
//
// A Fleet may be used by many goroutines at once. Run owns a goroutine for each worker.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/process"
)

const (
	// upTimeout bounds how long a process may take to be up.
	upTimeout = time.Minute
	// A worker that dies is replaced after firstBackoff; one that dies again within settled, after twice as long each
	// time.
	firstBackoff, lastBackoff = 100 * time.Millisecond, 10 * time.Second
	settled                   = time.Minute
)

// Config says how to run workers.
type Config struct {
	// Binary is a penstock binary, and Args the flags of each worker, besides its name, addresses and whom to join.
	Binary string
	Args   []string
	// CPUs is how many each worker uses; 0: all.
	CPUs int
	// Dir takes, of each worker, a log and a file with its process's number: NAME.log, NAME.pid.
	Dir    string
	Logger *slog.Logger
}

// Fleet is the workers of this process.
type Fleet struct {
	cfg Config

	mu      sync.Mutex
	gossip  string // to join; "" until Join
	kept    []*worker
	numbers int           // of workers that ever were kept
	served  bool          // one came up
	changed chan struct{} // tells Run of kept and gossip
}

// worker is one that is kept, under one name for its files.
type worker struct {
	name    string
	member  string        // its name in the fleet: each of its processes has another one
	started bool          // by Run
	retired chan struct{} // closed when it is to end
}

// New prepares a fleet without workers; Scale says how many there should be, and Run runs them.
func New(cfg Config) *Fleet {
	return &Fleet{cfg: cfg, changed: make(chan struct{}, 1)}
}

// Join says at which gossip address the fleet is. No worker is started before.
func (f *Fleet) Join(gossip string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gossip = gossip
	f.notify()
}

func (f *Fleet) notify() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Wanted is how many workers are kept.
func (f *Fleet) Wanted(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.kept), nil
}

// Scale has so many workers kept. Of more than that, those end that are named, and then the newest.
func (f *Fleet) Scale(_ context.Context, workers int, drain []string) error {
	if workers < 0 {
		return fmt.Errorf("local: %d workers are none to keep", workers)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.kept) < workers {
		f.numbers++
		name := fmt.Sprint("worker-", f.numbers)
		f.kept = append(f.kept, &worker{name: name, member: name, retired: make(chan struct{})})
	}
	for len(f.kept) > workers {
		i := slices.IndexFunc(f.kept, func(w *worker) bool { return slices.Contains(drain, w.member) })
		if i < 0 {
			i = len(f.kept) - 1
		}
		close(f.kept[i].retired)
		f.kept = slices.Delete(f.kept, i, i+1)
	}
	f.notify()
	return nil
}

// Run keeps workers until ctx ends, when they are killed: they keep nothing, and their streams have nowhere to go on.
// It returns an error if the very first does not come up: no other would.
func (f *Fleet) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			for _, w := range f.toStart() {
				group.Go(func() error { return f.keep(ctx, w) })
			}
			select {
			case <-f.changed:
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// toStart are the workers that have no goroutine yet.
func (f *Fleet) toStart() (out []*worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gossip == "" {
		return nil
	}
	for _, w := range f.kept {
		if !w.started {
			w.started = true
			out = append(out, w)
		}
	}
	return out
}

// keep runs a worker, and another when it dies, until it is to end.
func (f *Fleet) keep(ctx context.Context, w *worker) error {
	wait := time.Duration(0)
	for launch := 1; ; launch++ {
		began, up := time.Now(), false
		err := f.serve(ctx, w, launch, func() {
			up = true
			f.cfg.Logger.Info("a worker is up", "worker", w.name, "launch", launch)
		})
		if ctx.Err() != nil || w.isRetired() {
			return nil //nolint:nilerr // it was to end
		}
		if !up && !f.everServed() {
			return err
		}
		wait = backoff(wait, time.Since(began))
		f.cfg.Logger.Warn("a worker ended; starting another", "worker", w.name, "error", err, "log", f.path(w, "log"),
			"in", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-w.retired:
			return nil
		case <-time.After(wait):
		}
	}
}

func (w *worker) isRetired() bool {
	select {
	case <-w.retired:
		return true
	default:
		return false
	}
}

func (f *Fleet) everServed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.served
}

// serve runs one process of a worker until it or ctx ends, or the worker is to, and calls up when it is up.
func (f *Fleet) serve(ctx context.Context, w *worker, launch int, up func()) (err error) {
	p, err := f.start(w, launch)
	if err != nil {
		return err
	}
	defer func() {
		if w.isRetired() && ctx.Err() == nil {
			err = errors.Join(err, p.Stop(), f.remove(w, "pid")) // it drains
			return
		}
		err = errors.Join(err, p.Kill(), f.remove(w, "pid"))
		<-p.Done()
	}()
	within, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if _, err := p.Announced(within); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	f.mu.Lock()
	f.served = true
	f.mu.Unlock()
	up()
	select {
	case <-ctx.Done():
		return nil
	case <-w.retired:
		return nil
	case <-p.Done():
		return fmt.Errorf("local: %s ended by itself: %s", w.name, p.Status())
	}
}

// start starts a process of a worker. The fleet believes for a moment that a dead one lives, so another one has another
// name.
func (f *Fleet) start(w *worker, launch int) (*process.Process, error) {
	f.mu.Lock()
	if launch > 1 {
		w.member = fmt.Sprintf("%s.%d", w.name, launch)
	}
	member, gossip := w.member, f.gossip
	f.mu.Unlock()
	cfg := process.Config{
		Name: w.name, Binary: f.cfg.Binary, Log: f.path(w, "log"),
		Args: append([]string{"worker", "--name=" + member, "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--join=" +
			gossip}, f.cfg.Args...),
	}
	if f.cfg.CPUs > 0 {
		cfg.Env = []string{fmt.Sprint("GOMAXPROCS=", f.cfg.CPUs)}
	}
	p, err := process.Start(cfg)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(f.path(w, "pid"), []byte(strconv.Itoa(p.PID())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("local: %w", err), p.Kill(), p.Wait())
	}
	return p, nil
}

func (f *Fleet) path(w *worker, kind string) string {
	return filepath.Join(f.cfg.Dir, w.name+"."+kind)
}

func (f *Fleet) remove(w *worker, kind string) error {
	if err := os.Remove(f.path(w, kind)); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	return nil
}

// backoff is how long to wait before a worker is replaced that lived for so long, after the wait before it.
func backoff(before, lived time.Duration) time.Duration {
	if before == 0 || lived >= settled {
		return firstBackoff
	}
	return min(2*before, lastBackoff)
}
