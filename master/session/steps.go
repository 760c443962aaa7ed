package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Where last batches are padded (last_batch PAD), all ranks hand over equally many batches in an epoch, so that those
// that wait for each other after each batch do not wait for ever. The number of its steps is found while it is read:
//
//   - A rank reports how many batches it will hand over at least: those that it did, and those that the rows it has
//     fill. The epoch has the most steps that any rank ever reported in it.
//   - A rank hands over a batch of padding alone, as its i-th, only if it was told that the epoch has i steps.
//   - A rank ends an epoch that is closed once it handed over as many batches as the epoch has steps.
//
// Invariant: no rank has handed over more batches of an epoch than it has steps when it closes. Padding, because
// steps are written before they are told, and never fall: not even if the rank that reported them dies or loses the
// rows, for others may have padded by then. Real batches, because an epoch closes only when all of its rows are
// reported as consumed, and with them how many batches they were. (If rows of a lease that ended are handed over
// again, it is after their first time, and so, among ranks in step, not in an earlier step.)
//
// Nobody waits for ever: a rank waits in the open epoch only while others hold rows of it, or rows are to be granted, or
// another has not joined. Whoever has the rows gets to hand them over: all ranks reach its step, with rows or with padding,
// for it reports it. When no rows are left and all have joined, the epoch closes, and all ranks reach its last step. How long
// to wait for those that do not join, each trainer decides by its clock.

const (
	// maxSteps bounds numbers of steps from outside.
	maxSteps = 1 << 48
	// firstBatches is how many batches a training loop takes at most before it waits for other ranks: that of its first step, and
	// one that Lightning and Accelerate read ahead.
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

// countsSteps reports whether ranks count steps; else they tell of the epoch alone.
func (s *State) countsSteps() bool { return s.id.Pad || s.id.Counted }

// admitSteps checks what a rank reports.
func (s *State) admitSteps(c Sync) error {
	r, n := c.Rank, c.Steps
	if c.From > s.id.Epochs {
		return invalid("rank %d reports that it left the epochs before %d, and the session has %d: the trainer or its client is broken", r, c.From, s.id.Epochs)
	}
	if n != nil && s.id.Lanes > 0 {
		return s.admitLanes(r, s.rank(r), *n, c.From)
	}
	if s.drops() {
		return s.admitDropSteps(r, n, c.From)
	}
	if n != nil && (n.Epoch > s.closed || n.Handed > n.Ready || n.Ready > maxSteps) {
		return invalid("rank %d reports %+v, with %d epochs closed: the trainer or its client is broken", r, *n, s.closed)
	}
	return nil
}

// advance takes over what a rank reports. Reports may come in any order.
func (s *State) advance(r uint32, k *rank, n *Steps, ch *Changes) {
	if n == nil {
		return
	}
	if s.drops() { // only padding needs more
		n = &Steps{Epoch: n.Epoch, Handed: n.Handed, Ready: n.Handed}
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

// begin puts a rank's new start where its training loop goes on. Ranks that were started again together go on in step, at
// the place of the first of them: a rank was started together with those that joined after it was last heard of, and
// wait for it. One that comes back alone goes on from the last batch that it reported, one that comes late and alone
// from the start of the open epoch. For lanes, see beginLanes.
func (s *State) begin(k *rank, ch *Changes) {
	begun := Steps{Epoch: s.closed}
	if k.steps.Epoch >= s.closed && (s.countsSteps() || k.steps.Epoch == s.closed) {
		begun = k.steps
	}
	with := s.startedWith(k, func(other *rank) bool {
		return s.waits(other) && (s.id.Pad || s.id.Lanes > 0 || other.begun.Epoch >= s.closed)
	})
	if with != nil {
		begun = with.begun
	}
	switch {
	case s.id.Lanes > 0:
		begun = s.beginLanes(begun, with != nil)
		k.mayRepeat += s.again(k, begun)
	case s.drops() && with == nil:
		begun = s.beginDropping(begun)
	}
	if n := s.openSteps(); s.id.Pad && n > s.promised { // others may have padded up to what this rank reported
		s.promised = n
		ch.Head = true
	}
	k.begun = Steps{Epoch: begun.Epoch, Handed: begun.Handed, Ready: begun.Handed}
	k.steps = k.begun
	s.beginStep(k)
	s.forgetLeft(ch)
	s.joins++
	k.joined, k.heard = s.joins, s.joins
	s.forgetConsumed()
	k.told = slices.DeleteFunc(slices.Clone(k.told), func(e EpochSteps) bool { return e.Epoch >= begun.Epoch })
}

// startedWith is the newest of the ranks that joined after a rank was last heard of, and may wait for it; nil: it starts alone.
func (s *State) startedWith(k *rank, waits func(other *rank) bool) (with *rank) {
	newest := k.heard
	for _, other := range s.ranks {
		if other != nil && other != k && !other.departed && other.joined > newest && waits(other) {
			with, newest = other, other.joined
		}
	}
	return with
}

// waits reports whether a rank may wait for others that start with it: it handed over no more since it began than its first batches.
func (s *State) waits(k *rank) bool {
	handed := k.steps.Handed
	for epoch := k.begun.Epoch; epoch < k.steps.Epoch; epoch++ {
		told := k.toldOf(epoch) // where batches are dropped: to look at all ranks for each would take their square
		if !s.drops() {
			told.Steps, told.Final = s.stepsIn(epoch)
			told.Final = told.Final || s.id.Pad && epoch == s.closed // it left that: as when it closes, or what firstEpoch says might fall
		}
		if !told.Final {
			return false
		}
		handed += told.Steps
	}
	return handed <= k.begun.Handed+firstBatches
}

// openSteps is how many steps the open epoch has by now.
func (s *State) openSteps() uint64 {
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

// stepsIn is how many steps an epoch has, if that is known, and not forgotten.
func (s *State) stepsIn(epoch uint32) (n uint64, known bool) {
	closed := slices.IndexFunc(s.steps, func(e EpochSteps) bool { return e.Epoch == epoch })
	switch {
	case closed >= 0:
		return s.steps[closed].Steps, true
	case s.id.Lanes > 0:
		return s.laneSteps(epoch)
	case s.drops():
		n, known, _ = limitOf(s.shares(epoch))
		return n, known
	case s.id.Pad && epoch == s.closed:
		return s.openSteps(), false // so far
	}
	return 0, false
}

// stepAt is the job's step at a place; see Named.
func (s *State) stepAt(n Steps) uint64 {
	if n.Epoch > s.closed {
		if step, left := s.leftAtStep(n.Epoch - 1); left {
			return step + n.Handed
		}
	}
	at := s.stepsClosed + int64(n.Handed)
	for epoch := s.closed; epoch < n.Epoch; epoch++ {
		steps, _ := s.stepsIn(epoch)
		at += int64(steps)
	}
	for epoch := n.Epoch; epoch < s.closed; epoch++ { // others that wait began there
		steps, _ := s.stepsIn(epoch)
		at -= int64(steps)
	}
	return s.from.Step + uint64(max(0, at))
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
	ended := EpochSteps{Epoch: s.closed, Steps: steps}
	switch {
	case s.id.Lanes > 0:
		ended = s.laneEpoch(s.closed)
	case !s.id.Pad:
		return
	}
	s.steps = append(s.steps, ended)
	s.promised = 0
	oldest := s.firstEpoch()
	s.steps = slices.DeleteFunc(s.steps, func(e EpochSteps) bool { return e.Epoch < oldest })
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

// foresees reports whether a State may have rows of later steps: it tells of whole epochs, and ranks that left may have handed over the
// last of them behind its step, or any rank where the trainer is of an earlier release.
func (s *State) foresees(p *Checkpoint) bool {
	whole, steps := wholeEpochs(p.Base, p.Closed), uint64(0)
	for _, e := range s.steps {
		if whole.Contains(position.Position{Epoch: e.Epoch}) {
			steps += e.Steps
		}
	}
	return steps > p.Handed
}

// stepsFrom is what a rank in an epoch is told.
func (s *State) stepsFrom(epoch uint32) []EpochSteps {
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
		out = append(out, EpochSteps{Epoch: m.GetEpoch(), Steps: m.GetSteps(), Final: m.GetFinal(), Dropped: m.GetDropped()})
	}
	return out
}
