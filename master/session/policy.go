package session

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// policy is all in which sessions differ: an order of rows, and an ending of epochs. Each lies in a file of its own.
// What it remembers lies in the State.
type policy interface {
	supply
	answers
	pacing
	counting
	closing
	leaving
	durable
	fitting
}

// policy is the session's.
func (s *State) policy() policy {
	if s.id.Lanes > 0 {
		return deterministic{s}
	}
	switch s.id.LastBatch {
	case pb.LastBatch_DROP:
		return drop{fast{s}}
	case pb.LastBatch_PAD:
		return pad{fast{s}}
	}
	return uneven{takeover{fast{s}}}
}

// supply is what is planned, and who is granted what.
type supply interface {
	// needsPlan is NeedsPlan of a session that has not failed.
	needsPlan() (epoch, index uint32, ok bool)
	// plan takes in a block.
	plan(b block, rows int64, ch *Changes)
	// consumed takes in what was consumed, or left out.
	consumed(set position.Set)
	// grant grants a rank that calls what it wants and may have, and reports whether it shall wait for no more rows of
	// the open epoch.
	grant(c Sync, k *rank, ch *Changes) (drained bool)
}

// answers is what ranks are told.
type answers interface {
	// answer adds to an answer what a rank holds, unless that is unchanged, and how many steps epochs have.
	answer(r uint32, k *rank, at *Steps, reply Reply) Reply
	// pieces and starts are what a rank holds in order DETERMINISTIC, and where blocks begin there.
	pieces(r uint32, k *rank) []Piece
	starts(k *rank) []LaneStart
	// changes counts those of what all ranks hold.
	changes() uint64
}

// pacing is where training loops are.
type pacing interface {
	// admit checks how far a rank says that it is, and advance takes that over.
	admit(r uint32, at *Steps, left uint32) error
	advance(r uint32, k *rank, at *Steps, idle bool, ch *Changes)
	// begin is where the training loop of a rank's new start goes on.
	begin(k *rank, ch *Changes) Steps
}

// counting is how many steps epochs have.
type counting interface {
	// counts reports whether ranks count steps; else they tell of the epoch alone.
	counts() bool
	// stepsOf is how many steps an epoch has that is not closed, and whether that is final.
	stepsOf(epoch uint32) (n uint64, known bool)
	// passed is the same of an epoch that a rank is past.
	passed(k *rank, epoch uint32) (n uint64, known bool)
	// countsOutputs reports whether outputs are counted when a block is planned.
	countsOutputs() bool
}

// closing is when epochs end, and what is kept of them.
type closing interface {
	// over reports whether an epoch may be closed: it is consumed, or all ranks have left it. Where ranks count steps,
	// all of them make equally many: one that has not joined yet begins where its generation began, and the others wait
	// for it there, however few rows are left. Those that left or died have joined.
	over(epoch uint32) bool
	// ended is what ranks that lag are told of the open epoch, which has so many steps, once it is closed.
	ended(steps uint64) (EpochSteps, bool)
	// forget forgets what nobody gets of the epochs before a position, which are closed, and what was told of them.
	forget(start position.Position)
	// keep is the first epoch of which it is kept what was consumed.
	keep() uint32
}

// leaving is what happens to epochs that training loops leave before their end.
type leaving interface {
	// ahead is by how many epochs a training loop may be beyond the open one.
	ahead() uint32
	// leaving is called before a rank is put into another epoch.
	leaving(ch *Changes)
	// rest is about how many shards of an epoch are left at a step of the job.
	rest(epoch uint32, step uint64) int64
	// skips reports whether rows that cannot be read may be left out.
	skips() bool
}

// durable is what lies in etcd.
type durable interface {
	// load completes what was read.
	load(head *pb.SessionHead) error
	// check verifies what the policy keeps to.
	check() error
	// between reports whether nothing has begun of the open epoch, and Remains says all else.
	between() bool
}

// fitting is what states a session goes on from.
type fitting interface {
	// admitState checks a state that is brought.
	admitState(p Checkpoint) error
	// fit puts what the states say into the session's own terms, for so many ranks.
	fit(m merged, world uint32) (merged, error)
	// rewind has the session go on from there.
	rewind(m merged)
	// granted reports whether a rank was granted anything.
	granted(k *rank) bool
}
