package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// watchEvery is how often the watchdog looks.
	watchEvery = time.Second
	// recountTimeout bounds the recount.
	recountTimeout = 20 * time.Minute
)

// run makes everything, lets the faults loose on the job, recounts and reports. notIsolated says why there are no
// networks to cut.
func run(ctx context.Context, o options, notIsolated error) (err error) {
	r := &report{options: o, notIsolated: notIsolated, began: time.Now()}
	say := r.say
	say("seed %d, %d faults, %d epochs of %d rows; logs are in %s", o.seed, o.faults, o.epochs, o.rows, o.dir)
	if notIsolated != nil {
		say("all processes are on loopback: faults of class %s are left out: %v", network, notIsolated)
	}
	faults := schedule(o.seed, o.faults, o.shape(notIsolated == nil), o.only)
	if len(faults) < o.faults {
		return fmt.Errorf("--only %s: no fault of these classes is possible here: %w",
			strings.Join(o.only, ","), notIsolated)
	}
	r.files = fileRows(o.rows)
	r.dataset = filepath.Join(o.dir, "dataset")
	if err := os.MkdirAll(r.dataset, 0o755); err != nil {
		return err
	}
	paths, err := writeDataset(ctx, r.dataset, r.files, o.full) // which is counted against, whatever is read
	if err == nil && o.format != parquetFormat {
		paths, err = writeRecords(ctx, filepath.Join(o.dir, "records"), r.files, o.format)
	}
	if err != nil {
		return err
	}
	segments, undisturbed, err := r.play(ctx, paths, faults)
	if err == nil {
		err = r.recount(ctx, segments, undisturbed)
	}
	err = errors.Join(err, r.searchLogs(), r.checkRefusals())
	err = errors.Join(err, r.finish(err))
	if err != nil {
		return fmt.Errorf(
			"%w\nlogs, ledgers and the last checkpoint are in %s; the same again: go run ./bench/chaos %s",
			err, o.dir, o.again())
	}
	if o.keep {
		say("logs and ledgers are in %s", o.dir)
		return nil
	}
	return os.RemoveAll(o.dir)
}

// mustHaveAll reports whether a missing tool is a failure, as on CI; elsewhere the program does with what there is.
func mustHaveAll() bool { return os.Getenv("CI") != "" }

// play runs fleet, job and faults, and returns what the job was handed over; with the deterministic order, also what
// the same job of one trainer is without faults.
func (r *report) play(
	ctx context.Context, paths []string, faults []Fault,
) (segments, undisturbed []segment, err error) {
	o := r.options
	f, err := newFleet(ctx, o, r.notIsolated == nil)
	if err != nil {
		return nil, nil, err
	}
	r.fleet = f
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	defer func() {
		err = errors.Join(err, f.checkPeaks(err == nil))
		cancel()
		if waited := group.Wait(); err == nil {
			err = waited
		}
		if f.functions {
			err = errors.Join(err, f.checkFunctions())
		}
		err = errors.Join(err, f.close())
	}()
	if err := f.prepare(ctx, group, paths); err != nil {
		return nil, nil, err
	}
	spec := specText("s3://"+bucket+"/", o)
	total := o.expected(r.files) * int64(o.epochs)
	r.job = newJob("chaos", f, spec, o.trainers, total, r.say)
	r.storm = newStorm(f, r.job, r.say)
	if segments, err = r.strike(ctx, r.job, faults); err != nil || o.order != deterministic {
		return segments, nil, err
	}
	r.say("the same job without faults")
	undisturbed, err = r.strike(ctx, newJob("undisturbed", f, spec, 1, total, r.say), nil)
	return segments, undisturbed, err
}

// strike runs a job, with faults.
func (r *report) strike(ctx context.Context, j *job, faults []Fault) (segments []segment, err error) {
	began := time.Now()
	var players sync.WaitGroup
	defer players.Wait()
	playing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	players.Go(func() { r.watch(playing, j, stop) })
	if len(faults) > 0 {
		r.struckFrom = began
		players.Go(func() {
			if err := r.storm.run(playing, faults); err != nil {
				stop(err)
			}
		})
	}
	segments, err = j.run(playing)
	if cause := context.Cause(playing); cause != nil && ctx.Err() == nil {
		err = cause
	}
	r.played += time.Since(began)
	return segments, err
}

// watch ends a run that makes no progress, and has its processes say where they are.
func (r *report) watch(ctx context.Context, j *job, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		pause(ctx, watchEvery)
		r.fleet.weigh(ctx, j.ranks())
		if stuck := j.stuckFor(); stuck > r.options.stuck {
			stop(
				fmt.Errorf(
					"a rank did not get a batch for %v, with these faults under way: %v\n%s\nthe logs of "+
						"all processes "+
						"end with their goroutines",
					stuck.Round(time.Second), r.storm.underWay(), j.where()))
			for _, u := range r.fleet.units {
				_ = u.signal(syscall.SIGQUIT) // each by its log
			}
			for _, p := range j.ranks() {
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
	if j.present == nil {
		return "no attempt yet"
	}
	return j.present.describe()
}

// recount counts what was handed over.
func (r *report) recount(ctx context.Context, segments, undisturbed []segment) error {
	r.say("counting")
	ctx, cancel := context.WithTimeout(ctx, recountTimeout)
	defer cancel()
	q := question{
		ledger: filepath.Join(r.options.dir, "ledger.parquet"), dataset: r.dataset, epochs: r.options.epochs,
		full: r.options.full, functions: r.options.functions,
	}
	if err := writeLedger(q.ledger, segments); err != nil {
		return err
	}
	if undisturbed != nil {
		q.undisturbed = filepath.Join(r.options.dir, "undisturbed.parquet")
		if err := writeLedger(q.undisturbed, undisturbed); err != nil {
			return err
		}
	}
	c, err := recountDuckDB(ctx, r.options.python, q)
	if errors.Is(err, errNoDuckDB) && !mustHaveAll() {
		r.say("counting in Go: %v", err)
		c, err = recountGo(segments, undisturbed, r.files, r.options)
	}
	if err != nil {
		return err
	}
	r.count = c
	if r.options.stateless {
		return checkPromise(c, segments)
	}
	if !c.exact() {
		return fmt.Errorf("not every row was handed over exactly once: %v", c)
	}
	return nil
}

// crash is what a Go process writes when it should not have ended, and when it recovered from a panic.
var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE).*|.*\bpanicked\b.*`) //nolint:gochecknoglobals // never changed

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

// maxRefusals is how often a job is refused a restore after one fault: it goes back 1, 2, 4, ... of the checkpoints
// that it kept.
const maxRefusals = 7

// checkRefusals holds that restores were refused for a reason only: a rank that no master reached for longer than its
// lease.
func (r *report) checkRefusals() error {
	if r.job == nil {
		return nil
	}
	reasons := 0
	for _, s := range r.storm.struck {
		if s.For > r.options.lease || s.Class == trainers || s.Class == network {
			reasons++
		}
	}
	if n := r.job.figures.Overlaps; n > reasons*maxRefusals {
		return fmt.Errorf("%d restores were refused, more than %d faults explain", n, reasons)
	}
	return nil
}
