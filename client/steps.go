package client

import (
	"io"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Ranks count steps, that is batches of an epoch, where all of them get equally many (last_batch pad and drop) and in order
// deterministic. In order fast with last_batch pad an epoch's steps are found while it is read (pad.go). Else outputs are counted
// when blocks are planned: a rank hands over its i-th batch once the epoch has i steps, and when it has handed over a final number
// of them it goes on with the next epoch, whatever the master has closed.

// steps is where the training loop is. Its epoch is ledger.ended.
type steps struct {
	pads     bool   // last batches, in order fast
	counted  bool   // outputs are
	lanes    *lanes // in order deterministic
	batch    int    // rows
	handed   uint64 // batches of the loop's epoch
	told     map[uint32]epochSteps
	before   uint64 // counted: batches of the epoch before
	final    uint32 // pads: of the epochs before it, told is all
	blank    uint64 // lanes: steps in which this rank had no rows
	reported uint64 // pads: by the newest Sync
}

// epochSteps is how many steps an epoch has, as far as the master said.
type epochSteps struct {
	steps   uint64
	final   bool
	dropped uint64 // rows of the epoch that no rank gets
}

// counts reports whether ranks count steps.
func (l *ledger) counts() bool { return l.pads || l.counted }

// countSteps prepares for a loop that goes on where the master says.
func (l *ledger) countSteps(s steps, begun *pb.RankSteps, starts []*pb.LaneStart) {
	s.told = make(map[uint32]epochSteps)
	l.steps = s
	l.enter(begun.GetEpoch())
	l.handed = begun.GetHanded()
	l.order().learn(starts)
}

// current is the epoch of which rows go into batches.
func (l *ledger) current() uint32 {
	if l.counted {
		return l.ended
	}
	return max(l.ended, l.epoch)
}

// ahead reports whether the training loop has left an epoch that other ranks still read: until the master closes that, rows are buffered
// and none are handed over. Where outputs are counted nobody waits for that.
func (l *ledger) ahead() bool { return !l.counted && l.ended > l.epoch }

// report fills in what a Sync says of the loop.
func (l *ledger) report(req *pb.SyncRequest, making int) {
	switch {
	case l.ahead(): // that it left the open epoch, the request says
		l.reported = 0
		req.Steps = &pb.RankSteps{Epoch: l.epoch}
	case l.pads:
		l.reported = l.ready(making)
		req.Steps = &pb.RankSteps{Epoch: l.ended, Handed: l.handed, Ready: l.reported}
	case l.counted && l.ended > l.epoch+1: // the master has not closed the epoch before that
		req.Steps = &pb.RankSteps{Epoch: l.epoch + 1}
		if l.ended == l.epoch+2 {
			req.Steps.Handed = l.before
		}
	default: // where ranks do not count steps, handed stays 0
		req.Steps = &pb.RankSteps{Epoch: l.ended, Handed: l.handed}
	}
}

// learn takes over what a reply says of steps.
func (l *ledger) learn(reply *pb.SyncReply) {
	if !l.counts() {
		return
	}
	for _, e := range reply.GetSteps() {
		known := l.told[e.GetEpoch()]
		l.told[e.GetEpoch()] = epochSteps{
			steps: max(known.steps, e.GetSteps()), final: known.final || e.GetFinal(), dropped: e.GetDropped(),
		}
	}
	if l.pads {
		l.final = l.epoch
	}
	if !reply.GetUnchanged() {
		l.order().learn(reply.GetStarts())
	}
}

// over reports whether the training loop has handed over all steps of its epoch, where outputs are counted.
func (l *ledger) over() bool {
	e := l.told[l.ended]
	return e.final && l.handed >= e.steps
}

// starved reports whether the training loop waits for what a master has to say.
func (l *ledger) starved() bool {
	return l.ahead() || l.epochIdle() || l.counted && l.handed >= l.told[l.ended].steps
}

// endEpoch goes on to the next epoch. What is left of the one before is in no step.
func (l *ledger) endEpoch(making int) {
	for _, p := range slices.Clone(l.pieces) {
		if p.taken.Epoch > l.ended {
			continue
		}
		l.drop(p)
		l.remove(p)
	}
	next := position.Position{Epoch: l.ended + 1}
	l.pending = slices.DeleteFunc(l.pending, func(iv position.Interval) bool { return iv.From.Less(next) })
	l.discard = making > 0
	l.enter(l.ended + 1)
}

// leaveEpoch goes on to the next epoch though this one has more. making is the number of rows in the batch in the making.
func (l *ledger) leaveEpoch(making int) {
	if l.ended == l.current() {
		l.endEpoch(making)
	} else { // the master has closed it, and what is in the making is the next one's
		l.enter(l.ended + 1)
	}
	l.left = l.ended
}

// handStep is handOver where outputs are counted. s.mu must be held.
func (s *Session) handStep(ends bool) (*Batch, error) {
	l := &s.ledger
	have := s.made()
	switch {
	case l.ended >= s.epochs:
		return nil, io.EOF
	case l.over():
		if n := l.told[l.ended].dropped; n > 0 {
			s.stats.Dropped += int64(n)
			s.log.Info("what was left of an epoch, less than a batch of each rank, is dropped", "event", "rows_dropped", "epoch", l.ended, "rows", n)
		}
		l.endEpoch(have)
		signal(s.wake)
		signal(s.slot)
		signal(s.ready)
		if ends {
			return nil, ErrEpochEnd
		}
		return nil, nil
	case l.handed >= l.told[l.ended].steps, !l.order().filled(have), !s.leased():
		return nil, nil
	}
	blank := have == 0 && !s.pads
	if !blank {
		s.beginBatch()
		if err := s.complete(s.build); err != nil { // before its rows count as consumed
			return nil, err
		}
	}
	l.handOver()
	l.order().begin()
	if blank {
		l.handed++ // a last step, of which this rank's lanes have nothing
		l.blank++
		s.checkpointing.pass(s.stepsMade())
		signal(s.wake)
		signal(s.ready)
		return nil, nil
	}
	return s.finishBatch(), nil
}
