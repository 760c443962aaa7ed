package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/position"
)

// A training loop may leave an epoch before its end (iter(loader) begins the next pass). By rank.steps it is in a later
// epoch from then on, also where that is not open yet, and so it counts as through with the one that it left in each
// rule that waits for ranks:
//
//   - What its rank holds of the epoch and did not consume is returned, and it is granted no more of that. Ranks that
//     are still in the epoch get it; under DROP, where steps were told, none of them needs it.
//   - An epoch that all ranks have left closes. What is left of it goes to nobody, and is counted as abandoned. A rank
//     that departed has left it, too, as has one whose lease ended; but where outputs are counted that one is waited
//     for, as at an epoch's end, and where ranks count steps so is one that has not joined.
//   - How many steps were made of it follows from what its ranks had handed over when they left. One that had closed
//     by then keeps its number, for others may have begun after it: padding at its end that is left out counts as made.
//
// A new start of a rank that left an epoch goes on in the next one where ranks count steps, as after an end, and else
// with the open epoch: there, and where no Sync had told that it left, it reads what is free of that, as a start
// without a State does.
//
// A State that was taken before its loop left the epoch names its rest, one that was taken after that the next epoch.
// States of which one names each are not of the same step, and are refused together, as at an epoch's end: a restore
// neither repeats nor leaves out what only some of the ranks left.

// passes are the epochs that ranks left.
type passes struct {
	leftEpochs      []EpochSteps // that some rank left and are not closed, and the job's step after each
	abandonedEpochs uint32       // that all ranks left, with a rest
	abandonedShards int64        // of these rests, about
}

// leavePasses takes in that a training loop left all epochs before c.From, if it did.
func (c *Sync) leavePasses(s *State, k *rank, ch *Changes) (left bool) {
	epoch := min(c.From, s.closed+s.policy().ahead(), s.id.Epochs)
	if epoch <= k.steps.Epoch {
		return false
	}
	s.policy().leaving(ch)
	c.noteLeft(s, k, epoch)
	k.steps = Steps{Epoch: epoch}
	start := position.Position{Epoch: epoch}
	if rest := k.held.Subtract(from(k.held, start)); len(rest) > 0 {
		s.returned = s.returned.Union(rest)
		k.held, k.releasing = from(k.held, start), from(k.releasing, start)
		k.revision++
	}
	ch.Head = true
	ch.rank(c.Rank)
	return true
}

// countLeftOut has ranks count the padding that they left out at the end of an epoch, as those do that begin after it.
// A checkpoint that is being taken went by fewer steps, so that another one is chosen for it.
func (s *State) countLeftOut(ch *Changes) {
	if !s.policy().counts() || s.stepsLost {
		return
	}
	more := false
	for r, k := range s.ranks {
		if k == nil || k.departed {
			continue
		}
		if step, at := k.step(), s.stepAt(k.steps); step < at {
			k.begunStep += at - step
			ch.rank(uint32(r))
			more = true
		}
	}
	if more && s.taking.active() {
		s.taking.retried = "ranks left an epoch before its last steps, which were of padding"
		checkpointing{s}.chooseStep(ch)
	}
}

// noteLeft notes the job's step after the epochs before one, which a rank has left.
func (c *Sync) noteLeft(s *State, k *rank, epoch uint32) {
	step := k.step()
	if c.Steps != nil && c.Steps.Epoch >= epoch {
		step -= min(step, c.Steps.Handed)
	}
	for e := max(s.closed, k.steps.Epoch); e < epoch; e++ {
		s.noteLeft(e, step)
	}
}

// noteLeft notes that a rank left an epoch, so that the next one begins at a step of the job or later.
func (p *passes) noteLeft(epoch uint32, step uint64) {
	p.leftEpochs = slices.Clone(p.leftEpochs)
	if i := p.leftIndex(epoch); i >= 0 {
		p.leftEpochs[i].Steps = max(p.leftEpochs[i].Steps, step)
		return
	}
	p.leftEpochs = append(p.leftEpochs, EpochSteps{Epoch: epoch, Steps: step})
}

// leftAtStep is the job's step after an epoch that some rank left.
func (p *passes) leftAtStep(epoch uint32) (step uint64, left bool) {
	i := p.leftIndex(epoch)
	if i < 0 {
		return 0, false
	}
	return p.leftEpochs[i].Steps, true
}

func (p *passes) leftIndex(epoch uint32) int {
	return slices.IndexFunc(p.leftEpochs, func(l EpochSteps) bool { return l.Epoch == epoch })
}

// abandon counts what is left of an epoch that closes. It goes to nobody.
func (s *State) abandon(epoch uint32) {
	step, left := s.leftAtStep(epoch)
	if !left {
		return
	}
	if rest := s.policy().rest(epoch, step); rest > 0 {
		s.abandonedEpochs++
		s.abandonedShards += rest
	}
}

// forgetLeft forgets the epochs that closed, and those to which new starts of all that had left them went back.
func (s *State) forgetLeft(ch *Changes) {
	past := func(epoch uint32) bool {
		return slices.ContainsFunc(s.ranks, func(k *rank) bool { return k != nil && k.steps.Epoch > epoch })
	}
	n := len(s.leftEpochs)
	s.leftEpochs = slices.DeleteFunc(slices.Clone(s.leftEpochs), func(l EpochSteps) bool {
		return l.Epoch < s.closed ||
			!past(l.Epoch)
	})
	ch.Head = ch.Head || len(s.leftEpochs) < n
}
