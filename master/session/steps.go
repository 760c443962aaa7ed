package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

const (
	// maxSteps bounds numbers of steps from outside.
	maxSteps = 1 << 48
	// firstBatches is how many batches a training loop takes at most before it waits for other ranks: that of its first
	// step, and one that Lightning and Accelerate read ahead.
	firstBatches = 2
)

// Steps is how far a rank is. See pb.RankSteps.
type Steps struct {
	Epoch         uint32
	Handed, Ready uint64
}

// EpochSteps is how many steps an epoch has.
type EpochSteps struct {
	Epoch uint32
	Steps uint64
	Final bool // where outputs are counted
	// Dropped rows of the epoch go to no rank, where last batches are dropped and Steps are final.
	Dropped uint64
}

// admitSteps checks what a rank reports.
func (c *Sync) admitSteps(s *State) error {
	if c.From > s.id.Epochs {
		return invalid(
			"rank %d reports that it left the epochs before %d, and the session has %d: the trainer or its client "+
				"is broken", c.Rank, c.From, s.id.Epochs)
	}
	return s.policy().admit(c.Rank, c.Steps, c.From)
}

// advance takes over what a rank reports. Reports may come in any order.
func (k *rank) advance(r uint32, n *Steps, ch *Changes) {
	if n == nil {
		return
	}
	switch {
	case n.Epoch > k.steps.Epoch:
		k.steps = *n
		ch.rank(r)
	case n.Epoch == k.steps.Epoch && (n.Handed > k.steps.Handed || n.Ready > k.steps.Ready):
		k.steps.Handed, k.steps.Ready = max(k.steps.Handed, n.Handed), max(k.steps.Ready, n.Ready)
		ch.rank(r)
	}
}

// begin puts a rank's new start where its training loop goes on. Ranks that were started again together go on in step,
// at the place of the first of them: a rank was started together with those that joined after it was last heard of, and
// wait for it. One that comes back alone goes on from the last batch that it reported, one that comes late and alone
// from the start of the open epoch.
func (s *State) begin(k *rank, ch *Changes) {
	begun := s.policy().begin(k, ch)
	k.begun = Steps{Epoch: begun.Epoch, Handed: begun.Handed, Ready: begun.Handed}
	k.steps = k.begun
	s.beginStep(k)
	s.forgetLeft(ch)
	s.joins++
	k.joined, k.heard = s.joins, s.joins
	s.forgetConsumed()
	k.told = slices.DeleteFunc(slices.Clone(k.told), func(e EpochSteps) bool { return e.Epoch >= begun.Epoch })
}

// waits reports whether a rank may wait for others that start with it: it handed over no more since it began than its
// first batches.
func (s *State) waits(k *rank) bool {
	handed, p := k.steps.Handed, s.policy()
	for epoch := k.begun.Epoch; epoch < k.steps.Epoch; epoch++ {
		steps, known := p.passed(k, epoch)
		if !known {
			return false
		}
		handed += steps
	}
	return handed <= k.begun.Handed+firstBatches
}

// stepsIn is how many steps an epoch has, if that is known, and not forgotten.
func (s *State) stepsIn(epoch uint32) (n uint64, known bool) {
	if i := slices.IndexFunc(s.steps, func(e EpochSteps) bool { return e.Epoch == epoch }); i >= 0 {
		return s.steps[i].Steps, true
	}
	return s.policy().stepsOf(epoch)
}

// endSteps fixes the steps of the open epoch, which closes, and forgets those of epochs that no training loop is in.
func (s *State) endSteps() {
	steps, _ := s.stepsIn(s.closed)
	switch at, left := s.leftAtStep(s.closed); {
	case s.stepsLost:
	case left:
		s.stepsClosed = int64(at) - int64(s.from.Step)
	default:
		s.stepsClosed += int64(steps)
	}
	ended, kept := s.policy().ended(steps)
	if !kept {
		return
	}
	s.steps = append(s.steps, ended)
	s.promised = 0
	oldest := s.firstEpoch()
	s.steps = slices.DeleteFunc(s.steps, func(e EpochSteps) bool { return e.Epoch < oldest })
}

// stepAt is the job's step at a place; see Named.
func (s *State) stepAt(n Steps) uint64 {
	at := s.stepsClosed
	for epoch := s.closed; epoch < n.Epoch; epoch++ {
		if step, left := s.leftAtStep(epoch); left { // which knows how many steps were made of it
			at = int64(step) - int64(s.from.Step)
			continue
		}
		steps, _ := s.stepsIn(epoch)
		at += int64(steps)
	}
	for epoch := n.Epoch; epoch < s.closed; epoch++ { // others that wait began there
		steps, _ := s.stepsIn(epoch)
		at -= int64(steps)
	}
	return s.from.Step + uint64(max(0, at+int64(n.Handed)))
}

// firstEpoch is the first epoch that the training loop of a rank is in, or of one that starts with it.
func (s *State) firstEpoch() uint32 {
	first := s.closed
	for _, k := range s.ranks {
		switch {
		case k == nil || k.departed:
		case s.waits(k):
			first = min(first, k.begun.Epoch)
		default:
			first = min(first, k.steps.Epoch)
		}
	}
	return first
}

// foresees reports whether a State may have rows of later steps: it tells of whole epochs, and ranks that left may have
// handed over the last of them after its step, or any rank where the trainer is of an earlier release.
func (s *State) foresees(p *Checkpoint) bool {
	whole, steps := wholeEpochs(p.Base, p.Closed), uint64(0)
	for _, e := range s.steps {
		if whole.Contains(position.Position{Epoch: e.Epoch}) {
			steps += e.Steps
		}
	}
	return steps > p.Handed
}

// StepsFromProto reads steps; nil is nil.
func StepsFromProto(m *pb.RankSteps) *Steps {
	if m == nil {
		return nil
	}
	n := stepsFromProto(m)
	return &n
}

func stepsFromProto(m *pb.RankSteps) Steps {
	return Steps{Epoch: m.GetEpoch(), Handed: m.GetHanded(), Ready: m.GetReady()}
}

// Proto returns n as it crosses the wire.
func (n Steps) Proto() *pb.RankSteps {
	return &pb.RankSteps{Epoch: n.Epoch, Handed: n.Handed, Ready: n.Ready}
}

// EpochStepsProto returns steps as they cross the wire.
func EpochStepsProto(steps []EpochSteps) []*pb.EpochSteps {
	var out []*pb.EpochSteps
	for _, e := range steps {
		out = append(out, &pb.EpochSteps{Epoch: e.Epoch, Steps: e.Steps, Final: e.Final, Dropped: e.Dropped})
	}
	return out
}

func epochStepsFromProto(ms []*pb.EpochSteps) []EpochSteps {
	var out []EpochSteps
	for _, m := range ms {
		out = append(out, EpochSteps{
			Epoch: m.GetEpoch(), Steps: m.GetSteps(), Final: m.GetFinal(),
			Dropped: m.GetDropped(),
		})
	}
	return out
}
