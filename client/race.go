package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// hedgedShare of the streams, though at least one, may be opened a second time at once.
const hedgedShare = 0.05

// errLost ends the attempt that was late.
var errLost = errors.New("another worker was faster")

// attempt is one stream from one worker.
type attempt struct {
	worker *pb.Worker
	cancel context.CancelCauseFunc

	// Under shared.mu.
	second bool      // beside one that is late
	waits  time.Time // since when, for a message that there is room for
	begun  bool      // a message came
	rows   bool      // it moved the cursor
	lost   bool
}

// ended is an attempt's end.
type ended struct {
	*attempt
	err error
}

// race reads from worker w and, whenever that is late, from the next candidate besides, until one of them brings rows.
// It reports whether the piece is complete; else all attempts have failed.
func (st *stream) race(ctx context.Context, r *round, w *pb.Worker) (complete bool) {
	ends := make(chan ended, 2)
	running := 0
	begin := func(w *pb.Worker, second bool) {
		r.tried = append(r.tried, w)
		attemptCtx, a := st.begin(ctx, w, second)
		running++
		go func() { ends <- ended{a, st.read(attemptCtx, a, r.silences)} }()
	}
	begin(w, false)
	watch := time.NewTimer(st.terms.cfg.HedgeAfter)
	defer watch.Stop()
	for running > 0 {
		select {
		case e := <-ends:
			running--
			st.leave(e.attempt)
			var failed *workerError
			switch {
			case e.err == nil:
				complete = true
				st.cancelAll()
			case !errors.Is(e.err, errLost) && errors.As(e.err, &failed):
				r.note(e.attempt, failed)
				r.skip(st.workers())
				st.fetcher.noteError(e.worker, failed)
			}
		case <-watch.C:
			late, check := st.late()
			if late != nil {
				if w := r.next(); w == nil {
					r.again(late.worker)
					check = st.terms.cfg.HedgeAfter
				} else if st.hedge(late, w) {
					begin(w, true)
				}
			}
			watch.Reset(check)
		}
	}
	return complete
}

// workers are those that attempts read from.
func (st *stream) workers() (all []*pb.Worker) {
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	for _, a := range st.racing {
		all = append(all, a.worker)
	}
	return all
}

// begin lists an attempt.
func (st *stream) begin(ctx context.Context, w *pb.Worker, second bool) (context.Context, *attempt) {
	a := &attempt{worker: w, second: second, waits: time.Now()}
	ctx, a.cancel = context.WithCancelCause(ctx)
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	st.racing = append(st.racing, a)
	return ctx, a
}

// leave ends an attempt.
func (st *stream) leave(a *attempt) {
	a.cancel(nil)
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	if len(st.racing) == 2 {
		st.fetcher.hedging.open--
	}
	st.racing = slices.DeleteFunc(st.racing, func(b *attempt) bool { return a == b })
}

func (st *stream) cancelAll() {
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	for _, a := range st.racing {
		a.lost = true
		a.cancel(errLost)
	}
}

// late returns the attempt that is alone and late, if it is, and when to look again.
func (st *stream) late() (a *attempt, check time.Duration) {
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	check = st.terms.cfg.HedgeAfter
	if len(st.racing) != 1 || st.racing[0].waits.IsZero() {
		return nil, check
	}
	a = st.racing[0]
	patience, known := st.fetcher.hedging.patience(a.begun, st.terms.cfg.HedgeAfter)
	if !known {
		return nil, check
	}
	if left := patience - time.Since(a.waits); left > 0 {
		return nil, left
	}
	return a, check / 8
}

// hedge takes one of the few places for second attempts, to ask worker w beside the late one.
func (st *stream) hedge(late *attempt, w *pb.Worker) bool {
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	f := st.fetcher
	if f.hedging.open >= max(1, int(hedgedShare*float64(st.shared.ledger.streams))) {
		return false
	}
	late.second = false // if it was: the one beside it had ended
	f.hedging.open++
	f.fetched.hedges++
	st.terms.log.Info("stream hedged", "event", "stream_hedged",
		"shard", st.p.shard, "file", st.p.file, "cursor", st.at.received,
		"late", late.worker.GetName(), "second", w.GetName(), "waited", time.Since(late.waits))
	return true
}

// won notes that an attempt moved the piece's cursor on from here, and ends the one beside it. shared.mu must be held.
func (st *stream) won(a *attempt, from position.Position) {
	now := time.Now()
	a.rows, st.took = true, now
	for _, other := range st.racing {
		if other == a || other.lost {
			continue
		}
		other.lost = true
		other.cancel(errLost)
		if !a.second {
			continue
		}
		st.fetcher.hedging.slow[other.worker.GetAddress()] = now
		if st.broken == nil {
			st.broken = &Resume{
				Shard: st.p.shard, Cursor: from, File: st.p.file, From: other.worker.GetName(),
				Cause: &workerError{
					name: other.worker.GetName(), address: other.worker.GetAddress(),
					err: fmt.Errorf("sent nothing for %v: %w", now.Sub(other.waits), errLost),
				},
			}
			st.brokenAt = other.waits
		}
	}
}
