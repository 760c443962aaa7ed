package client

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// order is in which order a rank takes rows. Each has a file of its own.
type order interface {
	fetching
	taking
	checkpoints
}

// order is the session's.
func (l *ledger) order() order {
	if l.lanes != nil {
		return inLanes{l}
	}
	return fast{l}
}

// fetching is what is read.
type fetching interface {
	// reconcile makes pieces of all that is granted and was not taken: it trims or drops the pieces that there are,
	// renews their tickets, and adds what is missing.
	reconcile()
	// startable returns the next piece to open, or nil.
	startable() *piece
	// received notes rows of a piece that came, up to a position.
	received(p *piece, rows int, after position.Position) error
	// forget forgets a piece that ended.
	forget(p *piece)
	// turns reports whether a worker that sends several pieces in one stream takes them in turn.
	turns() bool
	// places is how many pieces may be open, but for those that never wait; shares among how many the budget is
	// divided.
	places() int
	shares() int
	// waitsForLent reports whether a stream waits for lent memory to be used.
	waitsForLent(p *piece) bool
}

// taking is what goes into batches.
type taking interface {
	// begin begins a step.
	begin()
	// take moves up to n rows into the batch in the making. It returns the piece they came from, or nil if there are
	// none.
	take(n int) (chunk, *piece)
	// pass notes positions that have no rows.
	pass(iv position.Interval)
	// filled reports whether the batch in the making, with so many rows, has all of its step.
	filled(have int) bool
}

// checkpoints is what states say.
type checkpoints interface {
	// learn takes over where blocks start.
	learn(starts []*pb.LaneStart)
	// snapshot completes a snapshot.
	snapshot(at *snapshot)
}
