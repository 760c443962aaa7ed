package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/process"
)

const (
	// upTimeout bounds how long a process may take to be up.
	upTimeout = time.Minute
	// A worker that dies is replaced after firstBackoff; one that dies again within settled, after twice as long each time.
	firstBackoff, lastBackoff = 100 * time.Millisecond, 10 * time.Second
	settled                   = time.Minute
)

// localFleet is a master and workers, each kept by a goroutine of run.
type localFleet struct {
	binary, logs, data string
	workers            int
	// master and worker are the flags of the master and of each worker, common those of both.
	master, worker, common []string
	logger                 *slog.Logger
}

// run brings the fleet up, tells up where it is, and keeps it until ctx ends or the master does. Workers are killed at the
// end: they keep nothing, and there is no other for their streams to go on at.
func (f *localFleet) run(ctx context.Context, up func(process.Announcement) error) (err error) {
	args := append([]string{"master", "--gossip=127.0.0.1:0", "--join=", "--data-dir=" + f.data}, f.master...)
	master, err := f.start("master", args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, master.Stop()) }()
	announced, err := f.await(ctx, master)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.watch(ctx, master) })
	var starting sync.WaitGroup
	starting.Add(f.workers)
	for i := range f.workers {
		group.Go(func() error { return f.keep(ctx, i+1, announced.Gossip, starting.Done) })
	}
	group.Go(func() error {
		starting.Wait()
		if ctx.Err() == nil {
			return up(announced)
		}
		return nil
	})
	return group.Wait()
}

// watch returns an error if the master ends by itself.
func (f *localFleet) watch(ctx context.Context, master *process.Process) error {
	select {
	case <-ctx.Done():
		return nil
	case <-master.Done():
		return fmt.Errorf("local: the master ended by itself (%s), and the fleet with it; its log is %s", master.Status(), f.log("master"))
	}
}

// keep runs a worker, and another when it dies. It calls started once, when the first is up or keep returns. That the
// first does not come up is an error: another would not either.
func (f *localFleet) keep(ctx context.Context, number int, gossip string, started func()) error {
	started = sync.OnceFunc(started)
	defer started()
	name, wait := fmt.Sprint("worker-", number), time.Duration(0)
	for launch := 1; ; launch++ {
		began, up := time.Now(), false
		err := f.serve(ctx, name, launch, gossip, func() {
			up = true
			started()
			if launch > 1 {
				f.logger.Info("the other worker is up", "worker", name)
			}
		})
		if ctx.Err() != nil {
			return nil
		}
		if launch == 1 && !up {
			return err
		}
		wait = backoff(wait, time.Since(began))
		f.logger.Warn("a worker ended; starting another", "worker", name, "error", err, "log", f.log(name), "in", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// serve runs one worker until it or ctx ends, and calls up when it is up.
func (f *localFleet) serve(ctx context.Context, name string, launch int, gossip string, up func()) (err error) {
	inFleet := name
	if launch > 1 { // the fleet believes for a moment that the dead one of that name lives
		inFleet = fmt.Sprintf("%s.%d", name, launch)
	}
	args := append([]string{
		"worker", "--name=" + inFleet, "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--join=" + gossip,
		fmt.Sprint("--slots=", slots(runtime.GOMAXPROCS(0), f.workers)),
	}, f.worker...)
	w, err := f.start(name, args)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, w.Kill())
		<-w.Done()
	}()
	if _, err := f.await(ctx, w); err != nil {
		return err
	}
	up()
	select {
	case <-ctx.Done():
		return nil
	case <-w.Done():
		return fmt.Errorf("local: %s ended by itself: %s", name, w.Status())
	}
}

// backoff is how long to wait before a worker is replaced that lived for so long, after the wait before it.
func backoff(before, lived time.Duration) time.Duration {
	if before == 0 || lived >= settled {
		return firstBackoff
	}
	return min(2*before, lastBackoff)
}

// slots of each worker together keep all CPUs busy, as those of one worker alone would.
func slots(cpus, workers int) int { return max(2, (2*cpus+workers-1)/workers) }

func (f *localFleet) log(name string) string { return filepath.Join(f.logs, name+".log") }

func (f *localFleet) start(name string, args []string) (*process.Process, error) {
	return process.Start(process.Config{Name: name, Binary: f.binary, Args: append(args, f.common...), Log: f.log(name)})
}

func (f *localFleet) await(ctx context.Context, p *process.Process) (process.Announcement, error) {
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	a, err := p.Announced(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("local: %s is not up after %v; its log is %s", p.Name, upTimeout, f.log(p.Name))
	}
	return a, err
}
