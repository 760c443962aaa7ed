package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// watchEvery is how often the watchdog looks.
const watchEvery = time.Second

// run makes everything, lets the faults loose on the job, recounts and reports. notIsolated says why there are no networks to cut.
func run(ctx context.Context, o options, notIsolated error) (err error) {
	r := &report{options: o, notIsolated: notIsolated, began: time.Now()}
	say := r.say
	say("seed %d, %d faults, %d epochs of %d rows; logs are in %s", o.seed, o.faults, o.epochs, o.rows, o.dir)
	if notIsolated != nil {
		say("all processes are on loopback: faults of class %s are left out: %v", network, notIsolated)
	}
	r.files = fileRows(o.rows)
	r.dataset = filepath.Join(o.dir, "dataset")
	if err := os.MkdirAll(r.dataset, 0o755); err != nil {
		return err
	}
	paths, err := writeDataset(ctx, r.dataset, r.files)
	if err != nil {
		return err
	}
	segments, err := r.play(ctx, paths)
	if err == nil {
		err = r.recount(ctx, segments)
	}
	err = errors.Join(err, r.searchLogs())
	err = errors.Join(err, r.finish(err))
	if err != nil {
		return fmt.Errorf("%w\nlogs, ledgers and the last checkpoint are in %s; the same again: go run ./bench/chaos %s", err, o.dir, o.again())
	}
	if o.keep {
		say("logs and ledgers are in %s", o.dir)
		return nil
	}
	return os.RemoveAll(o.dir)
}

// play runs fleet, job and faults, and returns what the job was handed over.
func (r *report) play(ctx context.Context, paths []string) (segments []segment, err error) {
	o := r.options
	f, err := newFleet(ctx, o, r.notIsolated == nil)
	if err != nil {
		return nil, err
	}
	r.fleet = f
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	defer func() {
		cancel()
		if waited := group.Wait(); err == nil {
			err = waited
		}
		err = errors.Join(err, f.close())
	}()
	if err := f.prepare(ctx, group, paths); err != nil {
		return nil, err
	}
	r.job = newJob(f, specText("s3://"+bucket+"/", o), int64(o.rows)*int64(o.epochs), r.say)
	r.storm = newStorm(f, r.job, r.say)
	faults := schedule(o.seed, o.faults, o.shape(f.lan != nil), o.only)
	r.struckFrom = time.Now()
	var players sync.WaitGroup
	defer players.Wait()
	playing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	players.Go(func() { r.watch(playing, stop) })
	players.Go(func() {
		if err := r.storm.run(playing, faults); err != nil {
			stop(err)
		}
	})
	segments, err = r.job.run(playing)
	if cause := context.Cause(playing); cause != nil && ctx.Err() == nil {
		err = cause
	}
	r.played = time.Since(r.struckFrom)
	return segments, err
}

// watch ends a run that makes no progress, and has its processes say where they are.
func (r *report) watch(ctx context.Context, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		pause(ctx, watchEvery)
		if stuck := r.job.stuckFor(); stuck > r.options.stuck {
			stop(fmt.Errorf("no trainer got a batch for %v, with these faults under way: %v\n%s\nthe logs of all processes end with their goroutines",
				stuck.Round(time.Second), r.storm.underWay(), r.job.where()))
			for _, u := range r.fleet.units {
				_ = u.signal(syscall.SIGQUIT) // each by its log
			}
			for _, p := range r.job.ranks() {
				_ = signalGroup(p, syscall.SIGQUIT)
			}
			pause(context.WithoutCancel(ctx), 2*time.Second) // until they have written
			return
		}
	}
}

// underWay are the faults that are not over.
func (s *storm) underWay() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []string{}
	for _, f := range s.current {
		out = append(out, fmt.Sprintf("%v on %v", f.Fault, f.On))
	}
	return out
}

// where says where the job is.
func (j *job) where() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.describe()
}

// recount counts what was handed over.
func (r *report) recount(ctx context.Context, segments []segment) error {
	r.say("counting")
	ledger := filepath.Join(r.options.dir, "ledger.parquet")
	if err := writeLedger(ledger, segments); err != nil {
		return err
	}
	c, err := recountDuckDB(ctx, r.options.python, ledger, r.dataset, r.options.epochs)
	if errors.Is(err, errNoDuckDB) {
		r.say("counting in Go: %v", err)
		c, err = recountGo(segments, r.files, r.options.epochs)
	}
	if err != nil {
		return err
	}
	r.count = c
	if !c.exact() {
		return fmt.Errorf("not every row was handed over exactly once: %v", c)
	}
	return nil
}

// crash is what a Go process writes when it should not have ended.
var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE).*`) //nolint:gochecknoglobals // never changed

// searchLogs looks for crashes of Penstock's processes. etcd may crash when its disk is full.
func (r *report) searchLogs() error {
	var errs []error
	for _, pattern := range []string{"master-*.log", "worker-*.log", "extra.log", "trainer-*.log"} {
		paths, err := filepath.Glob(filepath.Join(r.options.dir, pattern))
		if err != nil {
			return err
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if found := crash.Find(text); found != nil {
				errs = append(errs, fmt.Errorf("%s: %s", p, found))
			}
		}
	}
	return errors.Join(errs...)
}
