package client

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
)

// pacing is how a training loop goes through its epochs. Each ending has one, and order DETERMINISTIC the one where
// outputs are counted. It says what is to be done, and changes no more than the ledger.
type pacing interface {
	// counts reports whether ranks count steps.
	counts() bool
	// pads reports whether batches are padded to batch_size rows.
	pads() bool
	// current is the epoch of which rows go into batches.
	current() uint32
	// ahead reports whether the training loop has left an epoch that other ranks still read: until the master closes
	// that, rows are buffered and none are handed over.
	ahead() bool
	// starved reports whether it waits for what a master has to say.
	starved() bool
	// idles reports whether this rank can take over rows from others: it has none left of the epoch.
	idles() bool
	// next is what the training loop gets next. have is the number of rows in the batch in the making, and ends says
	// that the loop is told of the ends of epochs.
	next(have int, ends bool) next
	// gives is what is given back of rows that the master asks for. making is the number of rows in the batch in the
	// making.
	gives(asked position.Set, making int) position.Set
	// report fills in what a Sync says of the loop.
	report(req *pb.SyncRequest, making int)
	// hasNews reports whether others may wait, near the end of an epoch, for what it would say.
	hasNews(making int) bool
}

// next is what a training loop gets next.
type next uint8

const (
	nextWaits    next = iota // nothing yet
	nextPasses               // positions without rows are consumed, which is nothing to the loop
	nextBatch                // the batch in the making
	nextPadding              // a batch of padding alone
	nextBlank                // a step of which this rank has no rows, and no batch
	nextEpochEnd             // the end of its epoch
	nextEnd                  // the end of all epochs
)

// consumes reports whether rows are consumed, for which the lease must hold.
func (n next) consumes() bool { return n == nextPasses || n == nextBatch || n == nextBlank }

// pacingOf is the one that a spec asks for, of a dataset that may have excluded rows.
func pacingOf(s *pb.Spec, excludes bool, l *ledger) pacing {
	pad := s.GetLastBatch() == pb.LastBatch_PAD
	switch {
	case spec.Counted(s):
		return counted{l, pad}
	case pad:
		return padded{free{l}, excludes || spec.RowsOfSpec(s) != spec.SameRows}
	}
	return free{l}
}

func (l *ledger) current() uint32 { return l.pacing.current() }
func (l *ledger) ahead() bool     { return l.pacing.ahead() }

// free is the pacing of ranks that read on until an epoch has no more rows.
type free struct{ ledger *ledger }

func (p free) counts() bool     { return false }
func (p free) pads() bool       { return false }
func (p free) current() uint32  { return max(p.ledger.ended, p.ledger.epoch) }
func (p free) ahead() bool      { return p.ledger.ended > p.ledger.epoch }
func (p free) starved() bool    { return p.ahead() || p.ledger.epochIdle() }
func (p free) idles() bool      { return !p.ahead() && p.ledger.epochIdle() }
func (p free) hasNews(int) bool { return false }

// next is a batch when it is full, or the last one of the open epoch.
func (p free) next(have int, ends bool) next {
	l := p.ledger
	switch {
	case l.ended >= l.epochs:
		return nextEnd
	case p.ahead() && !l.finished:
		return nextWaits
	case ends && (l.ended < l.epoch || l.finished): // what is in the making is the next one's
		return nextEpochEnd
	case have == l.batch, have > 0 && l.through && l.epochIdle():
		return nextBatch
	case have == 0 && len(l.pending) > 0:
		return nextPasses
	case have == 0 && l.finished:
		return nextEnd
	}
	return nextWaits
}

// gives keeps the window that is read first, unless a later part of it is asked for. Ranks ask each other for their
// last ones: where workers take longer for a window than ranks for a Sync, none would ever read it to its end.
func (p free) gives(asked position.Set, _ int) position.Set {
	given := asked.Subtract(p.ledger.gone())
	if front := p.ledger.front(p.current()); !front.Empty() && given.Contains(front.From) {
		given = given.Subtract(position.Set{front})
	}
	return given
}

// report says the epoch alone. That the loop left the open one, the request says.
func (p free) report(req *pb.SyncRequest, _ int) {
	req.Steps = &pb.RankSteps{Epoch: min(p.ledger.ended, p.ledger.epoch)}
}
