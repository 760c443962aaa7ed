package client

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Ranks count steps, that is batches of an epoch, where all of them get equally many (last_batch pad and drop) and in
// order deterministic. In order fast with last_batch pad an epoch's steps are found while it is read (padded.go). Else
// outputs are counted when blocks are planned (counted.go).

// steps is where the training loop is.
type steps struct {
	ended    uint32 // epochs that it has ended or left; base and consumed are of the later ones
	left     uint32 // the epoch after the newest one that it left; 0: it left none
	lanes    *lanes // in order deterministic
	batch    int    // rows
	epochs   uint32 // of the session
	handed   uint64 // batches of the loop's epoch
	planned  map[uint32]epochSteps
	before   uint64 // counted: batches of the epoch before
	final    uint32 // of the epochs before it, planned is all
	blank    uint64 // lanes: steps in which this rank had no rows
	reported uint64 // padded: by the newest Sync
}

// epochSteps is how many steps an epoch has, as far as the master said.
type epochSteps struct {
	steps   uint64
	final   bool
	dropped uint64 // rows of the epoch that no rank gets
}

// countSteps prepares for a loop that goes on where the master says.
func (l *ledger) countSteps(begun *pb.RankSteps, starts []*pb.LaneStart) {
	l.planned = make(map[uint32]epochSteps)
	l.enter(begun.GetEpoch())
	l.handed = begun.GetHanded()
	l.order().learn(starts)
}

// learn takes over what a reply says of steps.
func (l *ledger) learn(reply *pb.SyncReply) {
	if !l.pacing.counts() {
		return
	}
	for _, e := range reply.GetSteps() {
		known := l.planned[e.GetEpoch()]
		l.planned[e.GetEpoch()] = epochSteps{
			steps: max(known.steps, e.GetSteps()), final: known.final || e.GetFinal(), dropped: e.GetDropped(),
		}
	}
	l.final = l.epoch
	if !reply.GetUnchanged() {
		l.order().learn(reply.GetStarts())
	}
}

// endEpoch goes on to the next epoch. What is left of the one before is in no step. making is the number of rows in the
// batch in the making; where the master has closed the epoch, they are the next one's.
func (l *ledger) endEpoch(making int) {
	if l.ended == l.current() {
		l.giveUp()
		l.discard = making > 0
	}
	l.enter(l.ended + 1)
}

// giveUp drops what there is of the loop's epoch.
func (l *ledger) giveUp() {
	for _, p := range slices.Clone(l.pieces) {
		if p.taken.Epoch > l.ended {
			continue
		}
		l.drop(p)
		l.remove(p)
	}
	next := position.Position{Epoch: l.ended + 1}
	l.pending = slices.DeleteFunc(l.pending, func(iv position.Interval) bool { return iv.From.Less(next) })
}

// leaveEpoch goes on to the next epoch though this one has more.
func (l *ledger) leaveEpoch(making int) {
	l.endEpoch(making)
	l.left = l.ended
}
