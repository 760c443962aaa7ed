package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"
)

// Next returns the next batch: exactly batch_size rows, all of one epoch; Batch.Epoch says of which. When this rank
// has nothing more of an epoch to get, what is left is a shorter last batch, or dropped, as the spec says. If another
// rank dies after that, rows of its shards may come late and make one more short batch. io.EOF comes after all epochs.
//
// If the spec pads last batches, all ranks get equally many batches of an epoch, all of batch_size rows: see Batch.Valid. Where all get
// equally many, Next waits for ranks that have not joined, at most for Config.JoinTimeout.
//
// Returning a batch is what makes its rows consumed. When ctx ends, Next returns its error at once and loses nothing;
// any other error ends the session. It waits, and says so in the log, while the lease has run out because no master
// can be reached.
func (s *Session) Next(ctx context.Context) (*Batch, error) { return s.next(ctx, false) }

// NextOfEpoch is Next, but for the error ErrEpochEnd where an epoch ends, once for each. The loop is then in the next epoch, so that a
// State says that nothing is left of the one before.
func (s *Session) NextOfEpoch(ctx context.Context) (*Batch, error) { return s.next(ctx, true) }

// LeaveEpoch ends an epoch for this rank before its end, if the loop is in it still: Next goes on with the epoch behind it, and a State
// names that. The rest goes to the ranks that are still in the epoch, and to nobody once all have left it; where ranks count no outputs,
// Next waits for that. Like Next it is for the one goroutine.
func (s *Session) LeaveEpoch(epoch uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	for s.ledger.ended <= epoch && s.ledger.ended < s.epochs {
		s.ledger.leaveEpoch(s.made())
	}
	s.lastReturn = time.Time{} // what the program did since is no step of its loop
	signal(s.wake)
	signal(s.slot)
	signal(s.ready)
	return nil
}

// Prepare copies rows, as they come, into the batch that Next returns next, until it is whole: Next is the quicker for it. It reports
// false if something came over stop before. Like Next it is for the one goroutine.
func (s *Session) Prepare(stop <-chan struct{}) bool {
	for {
		more, err := s.fill()
		switch {
		case err != nil || s.whole(): // Next tells
			return true
		case more:
			continue
		}
		select {
		case <-s.ready:
		case <-stop:
			return false
		}
	}
}

// whole reports whether the batch in the making has no room.
func (s *Session) whole() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made() == s.batch
}

// next is Next; ends says that the ends of epochs are told.
func (s *Session) next(ctx context.Context, ends bool) (*Batch, error) {
	asked := time.Now()
	s.mu.Lock()
	if !s.lastReturn.IsZero() {
		compute := asked.Sub(s.lastReturn)
		s.stats.Compute += compute
		s.pace.step(compute, s.lastRows)
		s.lastReturn = time.Time{}
	}
	s.mu.Unlock()
	var stalled time.Duration
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		more, err := s.fill()
		if err != nil {
			return nil, err
		}
		if more {
			continue
		}
		b, err := s.handOver(ends)
		if b != nil || err != nil {
			s.worked(asked, stalled)
			s.stalled = 0
			return b, err
		}
		begin := time.Now()
		select {
		case <-s.ready:
		case <-ctx.Done():
		}
		d := time.Since(begin)
		stalled += d
		s.stalled += d
		s.mu.Lock()
		s.stats.Stall += d
		s.stats.LongestStall = max(s.stats.LongestStall, s.stalled)
		s.mu.Unlock()
		if err := s.awaitRanks(); err != nil {
			return nil, err
		}
	}
}

// worked adds what a Next took besides waiting.
func (s *Session) worked(asked time.Time, stalled time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lastReturn.IsZero() {
		s.pace.client += max(0, s.lastReturn.Sub(asked)-stalled)
	}
}

// Batches ranges over Next until io.EOF; any other error is yielded last.
func (s *Session) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for {
			b, err := s.Next(ctx)
			if errors.Is(err, io.EOF) || !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// fill copies a run of received rows into the batch in the making. It reports false if there is none, or no room. If it cannot, the
// session fails: the rows were taken.
func (s *Session) fill() (bool, error) {
	s.mu.Lock()
	open := len(s.ledger.pieces)
	c, p, err := s.takeLocked()
	if len(s.ledger.pieces) < open { // one has ended, or more: those whose rows were in earlier steps, too
		s.freed()
	}
	if p == nil {
		s.mu.Unlock()
		return false, err
	}
	s.building[c.rec.worker] += int64(c.hi - c.lo)
	s.beginBatch()
	s.mu.Unlock()
	defer c.rec.release()
	if err := cmp.Or(s.build.append(c.rec, c.lo, c.hi), s.build.misplaced()); err != nil {
		s.fail(err)
		return false, err
	}
	return true, nil
}

// takeLocked takes received rows for the batch in the making, if it has room. s.mu must be held.
func (s *Session) takeLocked() (chunk, *piece, error) {
	if s.err != nil {
		return chunk{}, nil, s.err
	}
	have := s.made()
	if have == s.batch {
		return chunk{}, nil, nil
	}
	c, p := s.ledger.order().take(s.batch - have)
	return c, p, nil
}

// made is the number of rows in the batch in the making, which is emptied first if they are not ours any more.
// s.mu must be held.
func (s *Session) made() int {
	if s.ledger.discard {
		s.ledger.discard = false
		clear(s.building)
		if s.build != nil {
			s.build.reset()
		}
	}
	if s.build == nil {
		return 0
	}
	return s.build.rows
}

// beginBatch has there be a batch in the making. s.mu must be held.
func (s *Session) beginBatch() {
	if s.build == nil {
		s.build = s.buffers()
	}
}

// buffers returns empty buffers, released ones if there are any. s.mu must be held.
func (s *Session) buffers() *buffers {
	if n := len(s.free); n > 0 {
		b := s.free[n-1]
		s.free = slices.Delete(s.free, n-1, n)
		b.reset()
		return b
	}
	var memory *allocator
	if s.cfg.Memory != nil {
		memory = &allocator{of: s.cfg.Memory()}
	}
	return newBuffers(s.layout, s.batch, memory)
}

// handOver returns the batch in the making if it is full, or the epoch's last; io.EOF at the end; ErrEpochEnd at an epoch's end, if
// ends are told; the error that ended the session; or nothing if there is to wait.
func (s *Session) handOver(ends bool) (*Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return s.ledger.pacing().hand(s, ends)
}

// handRows is handOver where outputs are not counted. s.mu must be held.
func (s *Session) handRows(p pacing, ends bool) (*Batch, error) {
	have := s.made()
	switch {
	case s.ledger.ended >= s.epochs && !p.behind():
		return nil, io.EOF
	case p.ahead() && !s.finished:
		return nil, nil
	}
	if p.behind() {
		if b, err := s.catchUp(ends); b != nil || err != nil || p.behind() {
			return b, err
		}
	}
	if ends && s.ledger.ended < s.closed() { // what is in the making is the next one's
		s.ledger.enter(s.ledger.ended + 1)
		return nil, ErrEpochEnd
	}
	full := have > 0 && (have == s.batch || s.ledger.through && s.ledger.epochIdle())
	if !full && have > 0 || len(s.ledger.pending) > 0 && !s.leased() {
		return nil, nil
	}
	if full {
		if err := s.complete(s.build); err != nil { // before its rows count as consumed
			return nil, err
		}
	}
	if len(s.ledger.pending) > 0 && s.ledger.handOver() {
		signal(s.wake)
	}
	switch {
	case !full && p.mayPad():
		s.beginBatch() // an empty one may be what was discarded left
		if err := s.complete(s.build); err != nil {
			return nil, err
		}
	case !full && s.finished:
		s.ledger.enter(s.epochs)
		return nil, io.EOF
	case !full:
		return nil, nil
	}
	return s.finishBatch(), nil
}

// closed is how many epochs the master has closed. s.mu must be held.
func (s *Session) closed() uint32 {
	if s.finished {
		return s.epochs
	}
	return s.ledger.epoch
}

// finishBatch makes the batch in the making the trainer's. s.mu must be held.
func (s *Session) finishBatch() *Batch {
	s.ledger.enter(s.ledger.current())
	b := s.batchOf(s.build)
	s.build = nil
	for w, n := range s.building {
		s.stats.RowsByWorker[w] += n
	}
	clear(s.building)
	return b
}

// complete pads buffers, if the spec says so. It fails, and with it the session, if some of their memory is not where it should be. s.mu must
// be held.
func (s *Session) complete(build *buffers) error {
	build.valid = build.rows
	if s.pads {
		build.pad(s.batch - build.rows)
	}
	err := build.misplaced()
	if err != nil {
		s.failLocked(err)
	}
	return err
}

// batchOf makes a batch of the loop's epoch of complete buffers. s.mu must be held.
func (s *Session) batchOf(build *buffers) *Batch {
	if s.ledger.pacing().counts() {
		s.ledger.handed++
		signal(s.wake)
	}
	s.stats.Rows += int64(build.valid)
	b := &Batch{Rows: build.rows, Valid: build.valid, Epoch: s.ledger.ended, buffers: build, session: s, after: s.snapshot()}
	b.expose()
	s.stats.Batches++
	s.stats.Bytes += build.size()
	if b.Checkpoint = s.checkpointing.after(b.after, s.stepsMade()); b.Checkpoint != nil {
		signal(s.wake)
		s.log.Info("a checkpoint is taken behind this batch", "event", "checkpoint", "name", b.Checkpoint.Name, "step", b.Checkpoint.Step)
	}
	s.lastReturn, s.lastRows = time.Now(), build.valid
	return b
}

// leased reports whether rows may be handed over. s.mu must be held.
func (s *Session) leased() bool {
	if time.Now().Before(s.leaseEnds) {
		s.lapsed = false
		return true
	}
	if !s.lapsed {
		s.lapsed = true
		s.log.Warn("the lease ran out without an answer from a master; waiting for one", "event", "lease_lapsed", "lease", s.lease)
	}
	return false
}
