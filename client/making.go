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
	l := &h.shared.ledger
	for {
		if h.shared.err != nil {
			return nil, h.shared.err
		}
		next := l.pacing.next(h.made(), ends)
		if next.consumes() && !h.leased() {
			return nil, nil
		}
		switch next {
		case nextWaits:
			return nil, nil
		case nextPasses:
			h.consume()
		case nextBatch:
			return h.batch()
		case nextPadding:
			return h.padding()
		case nextBlank:
			h.blank()
			return nil, nil
		case nextEpochEnd:
			if h.endEpoch(); ends {
				return nil, ErrEpochEnd
			}
		case nextEnd:
			l.enter(h.terms.epochs)
			return nil, io.EOF
		}
	}
}

// consume makes the rows of the batch in the making consumed. shared.mu must be held.
func (h *handover) consume() {
	l := &h.shared.ledger
	if l.handOver() {
		signal(h.shared.wake)
	}
	l.order().begin()
}

// batch hands over the batch in the making. shared.mu must be held.
func (h *handover) batch() (*Batch, error) {
	// There is none yet if it is of padding alone.
	h.beginBatch()
	if err := h.complete(h.build); err != nil { // before its rows count as consumed
		return nil, err
	}
	h.consume()
	l := &h.shared.ledger
	l.enter(l.current())
	b := h.batchOf(h.build)
	h.build = nil
	for w, n := range h.shared.building {
		h.handed.byWorker[w] += n
	}
	clear(h.shared.building)
	return b, nil
}

// padding hands over a batch without rows. Rows in the making are the next epoch's. shared.mu must be held.
func (h *handover) padding() (*Batch, error) {
	build := h.spares.take()
	if err := h.complete(build); err != nil {
		return nil, err
	}
	return h.batchOf(build), nil
}

// blank passes a step without a batch. shared.mu must be held.
func (h *handover) blank() {
	h.consume()
	l := &h.shared.ledger
	l.handed++
	l.blank++
	h.checkpointing.pass(h.stepsMade())
	signal(h.shared.wake)
	signal(h.shared.ready)
}

// endEpoch goes on to the next epoch. shared.mu must be held.
func (h *handover) endEpoch() {
	l := &h.shared.ledger
	if n := l.planned[l.ended].dropped; n > 0 {
		h.handed.dropped += int64(n)
		h.terms.log.Info("what was left of an epoch, less than a batch of each rank, is dropped",
			"event", "rows_dropped", "epoch", l.ended, "rows", n)
	}
	l.endEpoch(h.made())
	signal(h.shared.wake)
	signal(h.shared.slot)
	signal(h.shared.ready)
}

// complete pads buffers, if the spec says so. It fails, and with it the session, if some of their memory is not where
// it should be. shared.mu must be held.
func (h *handover) complete(build *buffers) error {
	build.valid = build.rows
	if h.shared.ledger.pacing.pads() {
		build.pad(h.terms.batch - build.rows)
	}
	err := build.misplaced()
	if err != nil {
		h.shared.failLocked(err)
	}
	return err
}

// batchOf makes a batch of the loop's epoch of complete buffers. shared.mu must be held.
func (h *handover) batchOf(build *buffers) *Batch {
	l := &h.shared.ledger
	if l.pacing.counts() {
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
		h.terms.log.Info("a checkpoint is taken after this batch",
			"event", "checkpoint", "name", b.Checkpoint.Name, "step", b.Checkpoint.Step)
	}
	h.lastReturn, h.lastRows = time.Now(), build.valid
	return b
}
