package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

const (
	// lateness is how many times its usual wait a stream's next message may take until another worker is asked besides.
	lateness = 5
	// slowFor is how long a worker that lost to a second one is asked last.
	slowFor = 10 * time.Second
	// hedgedShare of the streams, though at least one, may be opened a second time at once.
	hedgedShare = 0.05
)

// errLost ends the attempt that was late.
var errLost = errors.New("another worker was faster")

// attempt is one stream from one worker.
type attempt struct {
	worker *pb.Worker
	cancel context.CancelCauseFunc

	// Under Session.mu.
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
	watch := time.NewTimer(st.cfg.HedgeAfter)
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
				st.noteError(e.worker, failed)
			}
		case <-watch.C:
			late, check := st.late()
			if late != nil {
				if w := r.next(); w == nil {
					r.again(late.worker)
					check = st.cfg.HedgeAfter
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
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, a := range st.racing {
		all = append(all, a.worker)
	}
	return all
}

// begin lists an attempt.
func (st *stream) begin(ctx context.Context, w *pb.Worker, second bool) (context.Context, *attempt) {
	a := &attempt{worker: w, second: second, waits: time.Now()}
	ctx, a.cancel = context.WithCancelCause(ctx)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.racing = append(st.racing, a)
	return ctx, a
}

// leave ends an attempt.
func (st *stream) leave(a *attempt) {
	a.cancel(nil)
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.racing) == 2 {
		st.hedging.open--
	}
	st.racing = slices.DeleteFunc(st.racing, func(b *attempt) bool { return a == b })
}

func (st *stream) cancelAll() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, a := range st.racing {
		a.lost = true
		a.cancel(errLost)
	}
}

// late returns the attempt that is alone and late, if it is, and when to look again.
func (st *stream) late() (a *attempt, check time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	check = st.cfg.HedgeAfter
	if len(st.racing) != 1 || st.racing[0].waits.IsZero() {
		return nil, check
	}
	a = st.racing[0]
	patience, known := st.hedging.patience(a.begun, st.cfg.HedgeAfter)
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
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.hedging.open >= max(1, int(hedgedShare*float64(st.ledger.streams))) {
		return false
	}
	late.second = false // if it was: the one beside it had ended
	st.hedging.open++
	st.stats.Hedges++
	st.log.Info("stream hedged", "event", "stream_hedged", "shard", st.p.shard, "file", st.p.file, "cursor", st.at.received,
		"late", late.worker.GetName(), "second", w.GetName(), "waited", time.Since(late.waits))
	return true
}

// won notes that an attempt moved the piece's cursor on from here, and ends the one beside it. st.mu must be held.
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
		st.hedging.slow[other.worker.GetAddress()] = now
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

// hedging is what a session knows of its streams' pace. It stands behind Session.mu.
type hedging struct {
	open int                  // second attempts
	slow map[string]time.Time // when workers were late, by address
	// For the first message of a stream, and for later ones.
	first, later pace
}

// pace is how long streams wait for messages: the longest wait of late. An average would take each pause between the bursts
// in which windows come for a worker's end.
type pace struct {
	longest time.Duration
	known   bool
}

func (p *pace) note(d time.Duration) { p.longest, p.known = max(d, p.longest*49/50), true }

// waited notes how long a stream waited for a message.
func (h *hedging) waited(begun bool, d time.Duration) {
	if begun {
		h.later.note(d)
	} else {
		h.first.note(d)
	}
}

// patience is how long a stream may wait for its next message, if any had one before.
func (h *hedging) patience(begun bool, least time.Duration) (d time.Duration, known bool) {
	usual := h.first
	if begun && h.later.known {
		usual = h.later
	}
	return max(least, lateness*usual.longest), usual.known
}

// inOrder is workers, those last that were late lately.
func (h *hedging) inOrder(workers []*pb.Worker, now time.Time) []*pb.Worker {
	maps.DeleteFunc(h.slow, func(_ string, late time.Time) bool { return now.Sub(late) >= slowFor })
	var fast, slow []*pb.Worker
	for _, w := range workers {
		if _, late := h.slow[w.GetAddress()]; late {
			slow = append(slow, w)
		} else {
			fast = append(fast, w)
		}
	}
	return append(fast, slow...)
}
