package client

import (
	"context"
	"maps"
	"time"
)

// handover makes batches of received rows, and hands them to the training loop under the lease. Its calls are the one
// goroutine's that calls Next, unless they say that shared.mu must be held.
type handover struct {
	terms   *terms
	shared  *shared
	spares  *spares
	build   *buffers      // the batch in the making
	stalled time.Duration // that Next has waited for it, over calls that ended with their contexts

	// Under shared.mu.
	lease         lease
	checkpointing checkpointing
	saidAbsent    uint32    // the log has said of the epochs before this one for which absent ranks Next waits
	lastReturn    time.Time // of Next with a batch
	lastRows      int       // of that batch, without padding
	pace          loopPace
	handed        handed
}

// lease is until when rows may be handed over.
type lease struct {
	ends   time.Time
	lapsed bool // and the log says so
}

// handed is the hand-over's part of Stats.
type handed struct {
	rows, batches, bytes         int64
	byWorker                     map[string]int64 // rows
	dropped                      int64
	stall, longestStall, compute time.Duration
}

func newHandover(t *terms, s *shared) *handover {
	return &handover{
		terms: t, shared: s,
		spares: &spares{layout: t.layout, rows: t.batch, memory: t.cfg.Memory},
		handed: handed{byWorker: make(map[string]int64)},
	}
}

// count fills in Stats. shared.mu must be held.
func (h *handover) count(st *Stats) {
	n := &h.handed
	st.Rows, st.Batches, st.Bytes, st.Dropped = n.rows, n.batches, n.bytes, n.dropped
	st.Stall, st.LongestStall, st.Compute = n.stall, n.longestStall, n.compute
	st.RowsByWorker = maps.Clone(n.byWorker)
}

// next is Session.Next; ends says that the ends of epochs are returned.
func (h *handover) next(ctx context.Context, ends bool) (*Batch, error) {
	asked := time.Now()
	h.loopEnds(asked)
	var stalled time.Duration
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		more, err := h.fill()
		if err != nil {
			return nil, err
		}
		if more {
			continue
		}
		b, err := h.handOver(ends)
		if b != nil || err != nil {
			h.loopBegins(asked, stalled)
			return b, err
		}
		stalled += h.stall(ctx)
		if err := h.awaitRanks(); err != nil {
			return nil, err
		}
	}
}

// loopEnds takes in how long the training loop took for its batch, if it had one.
func (h *handover) loopEnds(now time.Time) {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	if h.lastReturn.IsZero() {
		return
	}
	compute := now.Sub(h.lastReturn)
	h.handed.compute += compute
	h.pace.step(compute, h.lastRows)
	h.lastReturn = time.Time{}
}

// loopBegins adds what a Next took besides waiting.
func (h *handover) loopBegins(asked time.Time, stalled time.Duration) {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	if !h.lastReturn.IsZero() {
		h.pace.client += max(0, h.lastReturn.Sub(asked)-stalled)
	}
	h.stalled = 0
}

// stall waits until there may be rows, or the end of ctx.
func (h *handover) stall(ctx context.Context) time.Duration {
	begin := time.Now()
	select {
	case <-h.shared.ready:
	case <-ctx.Done():
	}
	d := time.Since(begin)
	h.stalled += d
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.handed.stall += d
	h.handed.longestStall = max(h.handed.longestStall, h.stalled)
	return d
}

// awaitRanks says for which ranks Next waits that have not joined, and ends the session once that was too long.
func (h *handover) awaitRanks() error {
	if h.stalled < sayAbsentAfter {
		return nil
	}
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	cfg, l := &h.terms.cfg, &h.shared.ledger
	ranks := l.absent(cfg.WorldSize)
	if len(ranks) == 0 {
		return nil
	}
	if h.stalled >= cfg.JoinTimeout {
		h.shared.failLocked(&AbsentError{Session: cfg.Session, Ranks: ranks, World: cfg.WorldSize, Waited: h.stalled})
		return h.shared.err
	}
	if h.saidAbsent <= l.ended {
		h.saidAbsent = l.ended + 1
		h.terms.log.Warn("this rank waits for others that have not joined; one that reads alone needs world_size=1",
			"event", "waiting_for_ranks", "missing", rankNames(ranks), "epoch", l.ended)
	}
	return nil
}

// leaveEpoch is Session.LeaveEpoch.
func (h *handover) leaveEpoch(epoch uint32) error {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	if h.shared.err != nil {
		return h.shared.err
	}
	l := &h.shared.ledger
	for l.ended <= epoch && l.ended < h.terms.epochs {
		l.leaveEpoch(h.made())
	}
	h.lastReturn = time.Time{} // what the program did since is no step of its loop
	signal(h.shared.wake)
	signal(h.shared.slot)
	signal(h.shared.ready)
	return nil
}

// prepare is Session.Prepare.
func (h *handover) prepare(stop <-chan struct{}) bool {
	for {
		more, err := h.fill()
		switch {
		case err != nil || h.whole(): // Next returns it
			return true
		case more:
			continue
		}
		select {
		case <-h.shared.ready:
		case <-stop:
			return false
		}
	}
}

// renew takes over that a master answered what was sent at a time. shared.mu must be held.
func (h *handover) renew(sent time.Time) { h.lease.ends = sent.Add(h.terms.lease) }

// leased reports whether rows may be handed over. shared.mu must be held.
func (h *handover) leased() bool {
	if time.Now().Before(h.lease.ends) {
		h.lease.lapsed = false
		return true
	}
	if !h.lease.lapsed {
		h.lease.lapsed = true
		h.terms.log.Warn("the lease ran out without an answer from a master; waiting for one",
			"event", "lease_lapsed", "lease", h.terms.lease)
	}
	return false
}
