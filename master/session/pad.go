package session

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Where last batches are padded (last_batch PAD), all ranks hand over equally many batches in an epoch, so that those
// that wait for each other after each batch do not wait for ever. The number of its steps is found while it is read:
//
//   - A rank reports how many batches it will hand over at least: those that it did, and those that the rows it has
//     fill. The epoch has the most steps that any rank ever reported in it, but for those that even.go does not count.
//   - A rank hands over a batch of padding alone, as its i-th, only if it was told that the epoch has i steps.
//   - A rank ends an epoch that is closed once it handed over as many batches as the epoch has steps.
//
// Invariant: no rank has handed over more batches of an epoch than it has steps when it closes. Padding, because
// steps are written before they are told, and never fall: not even if the rank that reported them dies or loses the
// rows, for others may have padded by then. Real batches, because an epoch closes only when all of its rows are
// reported as consumed, and with them how many batches they were. (If rows of a lease that ended are handed over
// again, it is after their first time, and so, among ranks in step, not in an earlier step.)
//
// Nobody waits for ever: a rank waits in the open epoch only while others hold rows of it, or rows are to be granted,
// or another has not joined. Whoever has the rows gets to hand them over: all ranks reach its step, with rows or with
// padding, for it reports it. When no rows are left and all have joined, the epoch closes, and all ranks reach its last
// step. How long to wait for those that do not join, each trainer decides by its clock.

// pad is the ending where last batches are padded.
type pad struct{ fast }

func (s pad) countsOutputs() bool { return false }
func (s pad) counts() bool        { return true }

// sharesOut tells the sessions whose rows are shared out evenly: no rows are left out. In others idle ranks take over.
func (s pad) sharesOut() bool { return !s.id.Selects }

func (s pad) plan(b block, rows int64, ch *Changes) {
	s.fast.plan(b, rows, ch)
	if s.sharesOut() {
		s.countPlanned(b)
	}
}

func (s pad) consumed(set position.Set) {
	if s.sharesOut() {
		s.countConsumed(set)
	}
}

func (s pad) load(*pb.SessionHead) error {
	if s.sharesOut() {
		s.countLeft()
	}
	return nil
}

func (s pad) rewind(m merged) {
	s.fast.rewind(m)
	if s.sharesOut() {
		s.countLeft()
	}
}

func (s pad) grant(c Sync, k *rank, ch *Changes) (drained bool) {
	if s.sharesOut() {
		return even(s).grant(c, k, ch)
	}
	return takeover(s).grant(c, k, ch)
}

// answer says how many steps epochs have, too.
func (s pad) answer(rank uint32, k *rank, at *Steps, r Reply) Reply {
	r = s.fast.answer(rank, k, at, r)
	if at != nil {
		r.Steps = s.stepsFrom(at.Epoch)
	}
	return r
}

// advance takes over what a rank reports.
func (s pad) advance(r uint32, k *rank, at *Steps, idle bool, ch *Changes) {
	if s.sharesOut() {
		even(s).advance(r, k, at, ch)
		return
	}
	k.advance(r, at, ch)
	takeover(s).noteIdle(r, k, idle, ch)
}

// begin has ranks that start together go on in step.
func (s pad) begin(k *rank, ch *Changes) Steps {
	begun := s.at(k)
	if with := s.startedWith(k, s.waits); with != nil {
		begun = with.begun
	}
	s.leaving(ch)
	return begun
}

// leaving keeps the steps that a rank reported that leaves the open epoch: others may have padded up to them.
func (s pad) leaving(ch *Changes) {
	if n := s.openSteps(); n > s.promised {
		s.promised = n
		ch.Head = true
	}
}

func (s pad) over(epoch uint32) bool {
	return (s.consumedAll(epoch) || s.leftByAll(epoch, false)) && s.allJoined()
}

func (s pad) keep() uint32 { return s.firstEpoch() }

// stepsOf the open epoch are those that it has by now.
func (s pad) stepsOf(epoch uint32) (n uint64, known bool) {
	if epoch == s.closed {
		return s.openSteps(), false
	}
	return 0, false
}

// passed takes what a rank left for closed, or what firstEpoch says might fall.
func (s pad) passed(_ *rank, epoch uint32) (n uint64, known bool) {
	n, known = s.stepsIn(epoch)
	return n, known || epoch == s.closed
}

func (s pad) ended(steps uint64) (EpochSteps, bool) {
	return EpochSteps{Epoch: s.closed, Steps: steps}, true
}

// openSteps is how many steps the open epoch has by now.
func (s pad) openSteps() uint64 {
	n := s.promised
	if s.begun.Epoch == s.closed {
		n = max(n, s.begun.Handed)
	}
	for _, k := range s.ranks {
		if k != nil && k.steps.Epoch == s.closed {
			n = max(n, k.steps.Ready)
		}
	}
	return n
}

// stepsFrom is what a rank in an epoch is told.
func (s pad) stepsFrom(epoch uint32) []EpochSteps {
	var out []EpochSteps
	for _, e := range s.steps {
		if e.Epoch >= epoch {
			out = append(out, e)
		}
	}
	if n := s.openSteps(); n > 0 {
		out = append(out, EpochSteps{Epoch: s.closed, Steps: n})
	}
	return out
}
