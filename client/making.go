package client

import (
	"cmp"
	"io"
	"time"
)

// whole reports whether the batch in the making has no room.
func (h *handover) whole() bool {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	return h.made() == h.terms.batch
}

// fill copies a run of received rows into the batch in the making. It reports false if there is none, or no room. If it
// cannot, the session fails: the rows were taken.
func (h *handover) fill() (bool, error) {
	sh := h.shared
	sh.mu.Lock()
	open := len(sh.ledger.pieces)
	c, p, err := h.takeLocked()
	if len(sh.ledger.pieces) < open { // one has ended, or more: those whose rows were in earlier steps, too
		sh.freed()
	}
	if p == nil {
		sh.mu.Unlock()
		return false, err
	}
	sh.building[c.rec.worker] += int64(c.hi - c.lo)
	h.beginBatch()
	sh.mu.Unlock()
	defer c.rec.release()
	if err := cmp.Or(h.build.append(c.rec, c.lo, c.hi), h.build.misplaced()); err != nil {
		sh.fail(err)
		return false, err
	}
	return true, nil
}

// takeLocked takes received rows for the batch in the making, if it has room. shared.mu must be held.
func (h *handover) takeLocked() (chunk, *piece, error) {
	if h.shared.err != nil {
		return chunk{}, nil, h.shared.err
	}
	have := h.made()
	if have == h.terms.batch {
		return chunk{}, nil, nil
	}
	c, p := h.shared.ledger.order().take(h.terms.batch - have)
	return c, p, nil
}

// made is the number of rows in the batch in the making, which is emptied first if they are not ours any more.
// shared.mu must be held.
func (h *handover) made() int {
	if h.shared.ledger.discard {
		h.shared.ledger.discard = false
		clear(h.shared.building)
		if h.build != nil {
			h.build.reset()
		}
	}
	if h.build == nil {
		return 0
	}
	return h.build.rows
}

// beginBatch has there be a batch in the making. shared.mu must be held.
func (h *handover) beginBatch() {
	if h.build == nil {
		h.build = h.spares.take()
	}
}

// handOver returns the batch in the making if it is full, or the epoch's last; io.EOF at the end; ErrEpochEnd at an
// epoch's end, if ends are told; the error that ended the session; or nothing if there is to wait.
func (h *handover) handOver(ends bool) (*Batch, error) {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	if h.shared.err != nil {
		return nil, h.shared.err
	}
	return h.shared.ledger.pacing().hand(h, ends)
}

// handRows is handOver where outputs are not counted. shared.mu must be held.
func (h *handover) handRows(p pacing, ends bool) (*Batch, error) {
	have, l := h.made(), &h.shared.ledger
	switch {
	case l.ended >= h.terms.epochs && !p.lags():
		return nil, io.EOF
	case p.ahead() && !h.shared.finished:
		return nil, nil
	}
	if p.lags() {
		if b, err := h.catchUp(ends); b != nil || err != nil || p.lags() {
			return b, err
		}
	}
	if ends && l.ended < h.closed() { // what is in the making is the next one's
		l.enter(l.ended + 1)
		return nil, ErrEpochEnd
	}
	full := have > 0 && (have == h.terms.batch || l.through && l.epochIdle())
	if !full && have > 0 || len(l.pending) > 0 && !h.leased() {
		return nil, nil
	}
	if full {
		if err := h.complete(h.build); err != nil { // before its rows count as consumed
			return nil, err
		}
	}
	if len(l.pending) > 0 && l.handOver() {
		signal(h.shared.wake)
	}
	switch {
	case !full && p.mayPad():
		h.beginBatch() // an empty one may be what was discarded left
		if err := h.complete(h.build); err != nil {
			return nil, err
		}
	case !full && h.shared.finished:
		l.enter(h.terms.epochs)
		return nil, io.EOF
	case !full:
		return nil, nil
	}
	return h.finishBatch(), nil
}

// closed is how many epochs the master has closed. shared.mu must be held.
func (h *handover) closed() uint32 {
	if h.shared.finished {
		return h.terms.epochs
	}
	return h.shared.ledger.epoch
}

// catchUp pads an epoch that the master has closed until this rank had as many batches as all others, and goes on to
// the next. It returns nothing at the open epoch, or if there is to wait; ErrEpochEnd, if ends are told. shared.mu must
// be held.
func (h *handover) catchUp(ends bool) (*Batch, error) {
	l := &h.shared.ledger
	for l.ended < l.final {
		if l.pacing().mayPad() {
			build := h.spares.take()
			if err := h.complete(build); err != nil {
				return nil, err
			}
			return h.batchOf(build), nil
		}
		l.enter(l.ended + 1)
		signal(h.shared.wake)
		if ends {
			return nil, ErrEpochEnd
		}
	}
	return nil, nil
}

// complete pads buffers, if the spec says so. It fails, and with it the session, if some of their memory is not where
// it should be. shared.mu must be held.
func (h *handover) complete(build *buffers) error {
	build.valid = build.rows
	if h.terms.pads {
		build.pad(h.terms.batch - build.rows)
	}
	err := build.misplaced()
	if err != nil {
		h.shared.failLocked(err)
	}
	return err
}

// finishBatch makes the batch in the making the trainer's. shared.mu must be held.
func (h *handover) finishBatch() *Batch {
	l := &h.shared.ledger
	l.enter(l.current())
	b := h.batchOf(h.build)
	h.build = nil
	for w, n := range h.shared.building {
		h.handed.byWorker[w] += n
	}
	clear(h.shared.building)
	return b
}

// batchOf makes a batch of the loop's epoch of complete buffers. shared.mu must be held.
func (h *handover) batchOf(build *buffers) *Batch {
	l := &h.shared.ledger
	if l.pacing().counts() {
		l.handed++
		signal(h.shared.wake)
	}
	h.handed.rows += int64(build.valid)
	b := &Batch{
		Rows: build.rows, Valid: build.valid, Epoch: l.ended,
		buffers: build, spares: h.spares, after: h.snapshot(),
	}
	b.expose()
	h.handed.batches++
	h.handed.bytes += build.size()
	if b.Checkpoint = h.checkpointing.after(b.after, h.stepsMade()); b.Checkpoint != nil {
		signal(h.shared.wake)
		h.terms.log.Info("a checkpoint is taken behind this batch",
			"event", "checkpoint", "name", b.Checkpoint.Name, "step", b.Checkpoint.Step)
	}
	h.lastReturn, h.lastRows = time.Now(), build.valid
	return b
}
