package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Retry says how often and how patiently transient errors are tried again. Zero fields take defaults.
type Retry struct {
	// Attempts in all; 6 by default.
	Attempts int `yaml:"attempts"`
	// Delay before the second attempt, doubled for each further one up to MaxDelay; 100 ms and 5 s by default.
	// Half of each delay is random. A service that asks for more (Retry-After) gets it, up to AttemptTimeout.
	Delay    time.Duration `yaml:"delay"`
	MaxDelay time.Duration `yaml:"max_delay"`
	// AttemptTimeout bounds one attempt, or in a listing the time without a file; 30 s by default. Reads get one
	// more second for each MB.
	AttemptTimeout time.Duration `yaml:"attempt_timeout"`
}

func (r Retry) withDefaults() (Retry, error) {
	if r.Attempts < 0 || r.Delay < 0 || r.MaxDelay < 0 || r.AttemptTimeout < 0 {
		return r, errors.New("retry: attempts, delay, max_delay and attempt_timeout must not be negative")
	}
	if r.Attempts == 0 {
		r.Attempts = 6
	}
	if r.Delay == 0 {
		r.Delay = 100 * time.Millisecond
	}
	if r.MaxDelay == 0 {
		r.MaxDelay = 5 * time.Second
	}
	if r.AttemptTimeout == 0 {
		r.AttemptTimeout = 30 * time.Second
	}
	return r, nil
}

// retrying is a Backend that tries transient failures of another again.
type retrying struct {
	next object.Backend
	cfg  Retry
}

var errAttempt = errors.New("no answer in time")

func (r retrying) Stat(ctx context.Context, uri string) (f *pb.File, err error) {
	err = r.retry(ctx, r.cfg.AttemptTimeout, func(ctx context.Context, _ func(bool)) error {
		f, err = r.next.Stat(ctx, uri)
		return err
	})
	return f, err
}

func (r retrying) ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error {
	timeout := r.cfg.AttemptTimeout + time.Duration(len(buf))*time.Microsecond
	return r.retry(ctx, timeout, func(ctx context.Context, _ func(bool)) error {
		return r.next.ReadAt(ctx, f, buf, offset)
	})
}

// List goes on at the backend's mark, or after the last file that an attempt listed, if files came in order; else it
// begins again, so that yield may be given files twice.
func (r retrying) List(ctx context.Context, q object.Query, yield func(*pb.File) error) error {
	start, ordered := q.After, true
	q.Mark = new(string)
	return r.retry(ctx, r.cfg.AttemptTimeout, func(ctx context.Context, progress func(bool)) error {
		if !ordered {
			q.After = start
		}
		q.Passed = func() { progress(false) }
		before := *q.Mark
		err := r.next.List(ctx, q, func(f *pb.File) error {
			ordered = ordered && f.Uri > q.After
			progress(ordered)
			q.After = f.Uri
			return yield(f)
		})
		if *q.Mark != before {
			progress(true)
		}
		return err
	})
}

// retry calls op until it succeeds, fails for good, or has had all its attempts. An attempt's context ends when
// nothing has called its progress function for the timeout. One that made progress that the next one keeps counts as
// the first: a long listing has many.
func (r retrying) retry(
	ctx context.Context, timeout time.Duration, op func(ctx context.Context, progress func(kept bool)) error,
) error {
	delay := r.cfg.Delay
	for n := 1; ; n++ {
		late, further, err := attempt(ctx, timeout, op)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case late:
			// What the backend says is that its context was cancelled, which the caller must not take for its own.
			err = object.Transient(fmt.Errorf("%w (%s)", errAttempt, timeout))
		case !object.IsTransient(err):
			return err
		}
		if further {
			n, delay = 1, r.cfg.Delay
		}
		if n == r.cfg.Attempts {
			return fmt.Errorf("given up after %d attempts: %w", n, err)
		}
		asked := min(object.After(err), timeout)
		if err := pause(ctx, max(asked, delay/2+rand.N(delay/2+1))); err != nil {
			return err
		}
		delay = min(2*delay, r.cfg.MaxDelay)
	}
}

// attempt calls op once and reports whether its time ran out, and whether it made progress that is kept.
func attempt(
	ctx context.Context, timeout time.Duration, op func(ctx context.Context, progress func(kept bool)) error,
) (late, further bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(timeout, func() { cancel(errAttempt) })
	defer timer.Stop()
	err = op(ctx, func(kept bool) {
		timer.Reset(timeout)
		further = further || kept
	})
	return errors.Is(context.Cause(ctx), errAttempt), further, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
