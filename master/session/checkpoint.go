package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/position"
)

// A named checkpoint is taken while ranks train. The master chooses a step that no rank has reached, as far as it
// knows, and orders a State after it from each rank that is there; the part of each lies in its own key. When all are
// there they are merged as for a restore, and what comes out is written under the name, in the transaction in which the
// last part comes. A rank that was faster than the order says that it missed the step, and all are asked again, for a
// step further ahead. So a leader may die at any point: whoever follows finds the order and the parts.
//
// A rank's step is the number of batches that its training loop has got, in this generation, and of those of padding
// that it left out at the end of a closed epoch: ranks that begin after that epoch count them, too. Ranks that are in
// step, as those of a data-parallel job are, save their models at the same one.

const (
	// maxTries bounds how often ranks may be beyond the step that is chosen for one checkpoint, or not in step. Each is
	// four times as far ahead as the one before: 65,536 batches for the last, which no rank hands over between two
	// Syncs.
	maxTries = 8
	// maxNamed bounds a session's checkpoints: all are read when a leader takes over.
	maxNamed = 64
	// maxNamedBytes bounds one of them: it is written in one transaction.
	maxNamedBytes = 1 << 19
	// maxName bounds a checkpoint's name, in bytes.
	maxName = 128
)

// Named is a checkpoint with a name. See pb.Checkpoint.
type Named struct {
	Name, Nonce string
	Step        uint64
	Created     int64
	Generation  uint64
	World       uint32
	State       Checkpoint
}

// taking is the checkpoint that is being taken, or the newest one that could not be.
type taking struct {
	id          uint64 // counts tries, of all checkpoints
	name, nonce string
	created     int64
	step        uint64
	tries       uint32
	retried     string // why the try before failed
	failed      bool   // for good
}

func (t *taking) active() bool { return t.name != "" && !t.failed }

// RestoredFrom is the named checkpoint that a generation began with; the zero value is none.
type RestoredFrom struct {
	Name  string
	Step  uint64
	Epoch uint32
}

// Part is what a rank answers to an Order.
type Part struct {
	ID     uint64
	State  *Checkpoint // nil: the rank missed the step
	Missed bool
}

// Order asks a rank for its State after a batch. See pb.CheckpointOrder.
type Order struct {
	ID            uint64
	Name          string
	Step, Batches uint64
}

// CreateCheckpoint begins to take a checkpoint, or asks how far it is.
type CreateCheckpoint struct {
	Name, Nonce string
	Now         int64
}

// ListCheckpoints asks for all checkpoints.
type ListCheckpoints struct{}

// DeleteCheckpoint deletes a checkpoint, or gives up one that is being taken.
type DeleteCheckpoint struct{ Name string }

// Restore puts the session back to a checkpoint. All ranks are fenced.
type Restore struct {
	Checkpoint Named
	World      uint32 // 0: the checkpoint's
	Nonce      string // of the caller; a repeated call changes nothing
}

// Taken answers CreateCheckpoint.
type Taken struct {
	Named *Named // nil: the checkpoint is being taken
	// Else:
	Step    uint64
	Missing []RankStep
	Tries   uint32
	Retried string
}

// RankStep says how far a rank is.
type RankStep struct {
	Rank    uint32
	Step    uint64
	Present bool
}

func (c CreateCheckpoint) apply(s *State, ch *Changes) (Reply, error) {
	if err := checkName(c.Name); err != nil {
		return Reply{}, err
	}
	if n := s.Named(c.Name); n != nil {
		if n.Nonce == c.Nonce {
			return Reply{Taken: &Taken{Named: n}}, nil
		}
		return Reply{}, fmt.Errorf("%w: %q, of step %d; choose another name, or delete it first",
			ErrCheckpointExists, c.Name, n.Step)
	}
	t := &s.taking
	switch {
	case t.active() && t.name != c.Name:
		return Reply{}, unchecked(
			"%q is being taken; wait for it, or give it up with `penstock session checkpoint %s %s --delete`",
			t.name, s.id.Session, t.name)
	case t.active():
		return Reply{Taken: checkpointing{s}.progressOf()}, nil
	case t.failed && t.nonce == c.Nonce:
		return Reply{}, unchecked("%q: no step was found for it: %s", c.Name, t.retried)
	case s.failure != "":
		return Reply{}, failed(s.failure)
	case s.Finished():
		return Reply{}, unchecked("all %d epochs are over, nothing is left to restore", s.id.Epochs)
	case len(s.named) >= maxNamed:
		return Reply{}, unchecked("the session has %d checkpoints, which is the most; delete some", len(s.named))
	case !slices.ContainsFunc(s.ranks, func(k *rank) bool { return k != nil && !k.departed }):
		return Reply{}, unchecked("no trainer is there to take it; start them")
	}
	*t = taking{id: t.id, name: c.Name, nonce: c.Nonce, created: c.Now, tries: 1}
	checkpointing{s}.chooseStep(ch)
	return Reply{Taken: checkpointing{s}.progressOf()}, nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return invalid("checkpoint name %q: want printable characters, 1 to %d bytes",
			name[:min(len(name), maxName)], maxName)
	}
	return nil
}

// From is the named checkpoint that this generation began with.
func (s *State) From() RestoredFrom { return s.from }

// Checkpoints are those with a name, by name. They are not to be changed, and good until the next Apply.
func (s *State) Checkpoints() []*Named { return s.named }

// Named returns a checkpoint, or nil.
func (s *State) Named(name string) *Named {
	if i, found := slices.BinarySearchFunc(s.named, name, byName); found {
		return s.named[i]
	}
	return nil
}

func (ListCheckpoints) apply(s *State, _ *Changes) (Reply, error) { //nolint:unparam // as commands are
	return Reply{Checkpoints: slices.SortedFunc(slices.Values(s.named), func(a, b *Named) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Name, b.Name))
	})}, nil
}

func byName(n *Named, name string) int { return cmp.Compare(n.Name, name) }

// checkpointing is how named checkpoints are taken.
type checkpointing struct{ *State }

func (s checkpointing) progressOf() *Taken {
	t := &Taken{Step: s.taking.step, Tries: s.taking.tries, Retried: s.taking.retried}
	for i, k := range s.ranks {
		if s.owes(k) {
			t.Missing = append(t.Missing, RankStep{Rank: uint32(i), Step: k.step(), Present: k.present()})
		}
	}
	return t
}

// owes reports whether a rank has to bring its part. What a rank that has left consumed is in the base.
func (s checkpointing) owes(k *rank) bool { return k != nil && !k.departed && k.part == nil }

// step is how many batches the rank's training loop has got, as far as the rank said.
func (k *rank) step() uint64 { return k.begunStep + uint64(max(0, k.counters.Batches)) }

// stepAhead is a step that no rank should have reached when it hears of it.
func (s checkpointing) stepAhead() uint64 {
	newest := s.from.Step
	for _, k := range s.ranks {
		if k != nil && !k.departed {
			newest = max(newest, k.step())
		}
	}
	return newest + 1<<(2*s.taking.tries)
}

// order is what a rank is asked for, or nil.
func (s checkpointing) order(k *rank) *Order {
	if !s.taking.active() || !s.owes(k) {
		return nil
	}
	o := &Order{ID: s.taking.id, Name: s.taking.name, Step: s.taking.step}
	if o.Step > k.begunStep {
		o.Batches = o.Step - k.begunStep
	}
	return o
}

// admitPart checks what a rank answers to an order. Answers to older ones do not count.
func (s checkpointing) admitPart(c Sync, k *rank) error {
	p := c.Part
	if p == nil || p.State == nil || !s.taking.active() || p.ID != s.taking.id {
		return nil
	}
	if st := p.State; st.Rank != c.Rank || st.Session != s.id.Session || st.Generation != s.generation ||
		st.World != s.world {
		return invalid(
			"rank %d brings a state of rank %d of %d, session %q, generation %d, for a checkpoint: the trainer or "+
				"its client is broken",
			c.Rank, st.Rank, st.World, st.Session, st.Generation)
	}
	if untold := from(p.State.Consumed,
		position.Position{Epoch: s.closed}).Subtract(k.consumed.Union(c.Consumed)); len(untold) > 0 {
		return invalid(
			"rank %d brings a state that consumed %v, which it has not reported: the trainer or its client is broken",
			c.Rank, untold[0])
	}
	if err := s.admit(*p.State); err != nil {
		return err
	}
	return s.admitCode(*p.State)
}

// takePart takes in what a rank answers to an order.
func (s checkpointing) takePart(c Sync, k *rank, ch *Changes) {
	switch p := c.Part; {
	case p == nil || !s.taking.active() || p.ID != s.taking.id || k.part != nil:
	case p.State == nil:
		s.retry(ch, "rank %d was beyond step %d when it heard of it", c.Rank, s.taking.step)
	case s.foresees(p.State):
		s.retry(ch, "rank %d came to step %d when later ones were over", c.Rank, s.taking.step)
	default:
		k.part = p.State
		ch.rank(c.Rank)
	}
}

// partLeaves is called when a rank leaves: what it consumed is in the base from then on, and in the States of others
// that are taken later. Unless it left right at the step, a later one is chosen.
func (s checkpointing) partLeaves(r uint32, k *rank, ch *Changes) {
	if s.taking.active() && (k.part == nil || k.step() != s.taking.step) {
		s.taking.retried = fmt.Sprintf("rank %d left at step %d", r, k.step())
		s.chooseStep(ch)
	}
}

// retry chooses a later step, or gives up.
func (s checkpointing) retry(ch *Changes, format string, args ...any) {
	t := &s.taking
	t.retried = fmt.Sprintf(format, args...)
	if t.tries == maxTries {
		t.retried = fmt.Sprintf("after %d tries: %s", t.tries, t.retried)
		s.giveUp(ch, t.retried)
		return
	}
	t.tries++
	s.chooseStep(ch)
}

// chooseStep asks all ranks for their parts of a new step.
func (s checkpointing) chooseStep(ch *Changes) {
	s.taking.id++
	s.taking.step = s.stepAhead()
	s.forgetParts()
	ch.Head = true
}

// giveUp ends what is being taken.
func (s checkpointing) giveUp(ch *Changes, why string) {
	s.taking.failed, s.taking.retried = true, why
	s.forgetParts()
	ch.Head = true
}

// forgetParts forgets parts in memory; those in keys are void by their id.
func (s checkpointing) forgetParts() {
	for _, k := range s.ranks {
		if k != nil {
			k.part = nil
		}
	}
}

// settle ends the taking of a checkpoint, if all is there or nothing will be.
func (s checkpointing) settle(ch *Changes) {
	switch {
	case !s.taking.active():
		return
	case s.failure != "":
		s.giveUp(ch, "the session has failed: "+s.failure)
		return
	case s.Finished():
		s.giveUp(ch, fmt.Sprintf("the last epoch ended before step %d", s.taking.step))
		return
	}
	var parts []*part
	for _, k := range s.ranks {
		switch {
		case s.owes(k):
			return
		case k != nil && k.part != nil:
			parts = append(parts, &part{states: []Checkpoint{*k.part}})
		}
	}
	if len(parts) == 0 {
		s.giveUp(ch, "all trainers have left")
		return
	}
	whole, err := join(parts)
	if err != nil {
		s.retry(ch, "the ranks were not in step: %v", err)
		return
	}
	t := &s.taking
	n := &Named{
		Name: t.name, Nonce: t.nonce, Step: t.step, Created: t.created, Generation: s.generation,
		World: s.world, State: whole,
	}
	if size := proto.Size(n.Proto()); size > maxNamedBytes {
		s.giveUp(ch, fmt.Sprintf(
			"it would have %d bytes, and the most is %d: save the states of the ranks from their training loops",
			size, maxNamedBytes))
		return
	}
	i, _ := slices.BinarySearchFunc(s.named, n.Name, byName)
	s.named = slices.Insert(s.named, i, n)
	*t = taking{id: t.id}
	s.forgetParts()
	ch.Checkpoints, ch.Head = append(ch.Checkpoints, n.Name), true
}

// join makes of the states of one step a single one, which says the same of the job.
func join(parts []*part) (Checkpoint, error) {
	m, err := merge(parts)
	if err != nil {
		return Checkpoint{}, err
	}
	whole := parts[0].states[0]
	whole.Rank, whole.Members, whole.Departed = 0, []uint32{0}, nil
	whole.Rows, whole.DepartedRows, whole.Skipped = 0, nil, m.skipped
	whole.BaseSkips, whole.Skips = m.skips, nil
	whole.Base, whole.Consumed, whole.Closed, whole.Handed = m.base, nil, m.closed, m.handed
	whole.BaseVersion, whole.Start, whole.Indexes = 1, m.start, m.indexes
	return whole, nil
}

func (c DeleteCheckpoint) apply(s *State, ch *Changes) (Reply, error) {
	if i, found := slices.BinarySearchFunc(s.named, c.Name, byName); found {
		s.named = slices.Delete(slices.Clone(s.named), i, i+1)
		ch.Checkpoints = append(ch.Checkpoints, c.Name)
		return Reply{}, nil
	}
	if s.taking.active() && s.taking.name == c.Name {
		checkpointing{s}.giveUp(ch, "it was given up by `--delete`")
		return Reply{}, nil
	}
	return Reply{}, s.noCheckpoint(c.Name)
}

func (s *State) noCheckpoint(name string) error {
	return fmt.Errorf("%w: %q; `penstock session checkpoints %s` lists those that it has",
		ErrNoCheckpoint, name, s.id.Session)
}

func (c Restore) apply(s *State, ch *Changes) (Reply, error) {
	if c.Nonce != "" && c.Nonce == s.restoredBy {
		return Reply{}, nil
	}
	n := c.Checkpoint
	if n.State.Version == 0 {
		known := s.Named(n.Name)
		if known == nil {
			return Reply{}, s.noCheckpoint(n.Name)
		}
		n = *known
	}
	if err := checkName(n.Name); err != nil {
		return Reply{}, err
	}
	world := cmp.Or(c.World, n.World)
	if world == 0 || world > maxWorld {
		return Reply{}, invalid("restore with world size %d; it is between 1 and %d", world, maxWorld)
	}
	if err := s.admit(n.State); err != nil {
		return Reply{}, err
	}
	if err := s.admitCode(n.State); err != nil {
		return Reply{}, err
	}
	m, err := merge([]*part{{states: []Checkpoint{n.State}}})
	if err == nil {
		m, err = s.policy().fit(m, world)
	}
	if err != nil {
		return Reply{}, err
	}
	s.restore = restore{attempt: s.restore.attempt + 1, round: s.restore.round} // of which no rank has a part
	s.rewind(m, make([]*rank, world), ch)
	s.from, s.restoredBy = RestoredFrom{Name: n.Name, Step: n.Step, Epoch: m.closed}, c.Nonce
	return Reply{}, nil
}

// beginStep puts a rank's new start at the step where its training loop goes on. Where ranks do not count steps that is
// the one of the ranks that were started together with it, as for begin, and else where it was.
func (s *State) beginStep(k *rank) {
	if s.policy().counts() && !s.stepsLost {
		k.begunStep = s.stepAt(k.begun)
		return
	}
	if with := s.startedWith(k, func(other *rank) bool { return other.counters.Batches <= firstBatches }); with != nil {
		k.begunStep = with.begunStep
	}
}
