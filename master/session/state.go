// Package session is the state machine of one session: who holds, consumed and gave back which positions, and
// which blocks to plan next. The master turns calls into Commands, Applies them, writes the keys that Changes
// names to etcd (master/store), and only then answers. There is no I/O, no clock and no goroutine here: the same
// state and command give the same result on any master. A State is for one goroutine at a time.
//
// Always, base, consumed, held, returned and never-granted positions partition the epochs that are not closed (of
// closed ones, base and consumed may be kept for a while, see forgetConsumed):
//
//	closed │ base ∪ consumed(r) ∪ held(r) ∪ returned │ frontier: never granted … end
//
// Behind the frontier lies nothing that anybody consumed, also of states from another session: a restore moves it
// to the end of the epoch that they end in, and what they did not consume of it is returned, granted before or not.
//
// Work and memory follow what is in flight. Only blocks with positions in flight are kept, and a few more; a block that
// a restore makes grantable again is asked for again by NeedsPlan.
//
// A State is members, blocks and positions. All in which sessions differ, an order of rows and an ending of epochs, is
// a policy (policy.go) with a file of its own: uneven.go, pad.go, drop.go and deterministic.go. Another one is another
// such file, a value of the enum that names it, and a run of the model checker.
package session

import (
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// maxWorld bounds world sizes from outside.
const maxWorld = 1 << 16

// noLimit is the number of epochs that no session comes to.
const noLimit = math.MaxUint32

// Identity is what never changes in a session. States brought to a restore must bear the same digests: then their
// positions mean the same rows.
type Identity struct {
	Session        string
	Epochs         uint32 // noLimit: as many as are read
	ProgramDigest  string
	DatasetDigest  string
	PlannerDigest  string
	FirstWorldSize uint32 // until a restore changes it
	LastBatch      pb.LastBatch
	Lanes          uint32   // of order DETERMINISTIC, else 0
	Skip           uint32   // row groups that may be left out because no worker can read them
	SkipRows       uint32   // rows of an epoch that may be left out because their own bytes make them fail
	Selects        bool     // rows are left out: a window may have fewer outputs than rows
	BatchSize      uint64   // rows of a rank's batch, but for GlobalBatch
	Code           *pb.Code // of its Python functions; nil: it has none
	GlobalBatch    uint64   // if not 0: rows of a step over all ranks, whatever the world size
}

// State is a session's state. Create one with New or Load.
type State struct {
	id         Identity
	generation uint64
	world      uint32
	closed     uint32            // epochs closed
	frontier   position.Position // free from here on
	returned   position.Set      // free before the frontier: given back, or not consumed by those who were restored
	base       position.Set      // consumed by departed ranks or before a restore
	kept       uint32            // the first epoch of base and of what ranks consumed
	// baseVersion counts the changes of base, closed, members and departed.
	baseVersion uint64
	blocks      plannedBlocks
	members
	restore     restore
	restored    uint64       // the restore attempt that made this generation
	begun       Steps        // where the training loops of this generation began
	steps       []EpochSteps // of closed epochs that a training loop may be in
	stepsClosed int64        // from begun to the start of the open epoch
	stepsLost   bool         // stepsClosed is not known: a release that does not know it has led
	passes
	promised uint64 // steps of the open epoch, by ranks that have started again since
	failure  string
	badData  bool // of the failure: data cannot be read, or changed

	skipped       []Skipped // in all epochs
	skippedBefore uint32    // row groups that were skipped elsewhere, as far as states that were restored tell
	badRows       badRows
	indexes       []BlockIndexes // ascending
	named         []*Named       // by name; they are never changed
	taking        taking
	from          RestoredFrom
	restoredBy    string // nonce of the newest Restore
}

// New returns the state of a session that just opened.
func New(id Identity) (*State, error) {
	if id.FirstWorldSize == 0 || id.FirstWorldSize > maxWorld {
		return nil, fmt.Errorf("session %s: world size %d is not between 1 and %d", id.Session, id.FirstWorldSize,
			maxWorld)
	}
	if id.Epochs == 0 {
		return nil, fmt.Errorf("session %s: no epochs; a session has at least 1", id.Session)
	}
	return &State{
		id: id, generation: 1, world: id.FirstWorldSize, baseVersion: 1,
		members: newMembers(make([]*rank, id.FirstWorldSize)),
	}, nil
}

// Changes names the etcd keys that an Apply changed.
type Changes struct {
	Head  bool
	Ranks []uint32 // ascending
	// Checkpoints are the names of those that came or went.
	Checkpoints []string
}

// Empty reports whether nothing changed.
func (c Changes) Empty() bool { return !c.Head && len(c.Ranks) == 0 && len(c.Checkpoints) == 0 }

// Merge adds the keys that another Apply changed.
func (c Changes) Merge(d Changes) Changes {
	ranks := slices.Concat(c.Ranks, d.Ranks)
	slices.Sort(ranks)
	return Changes{
		Head: c.Head || d.Head, Ranks: slices.Compact(ranks),
		Checkpoints: slices.Concat(c.Checkpoints, d.Checkpoints),
	}
}

func (c *Changes) rank(r uint32) {
	if !slices.Contains(c.Ranks, r) {
		c.Ranks = append(c.Ranks, r)
		slices.Sort(c.Ranks)
	}
}

// Apply executes a command. If it returns an error, nothing changed.
func (s *State) Apply(c Command) (Reply, Changes, error) {
	var ch Changes
	reply, err := c.apply(s, &ch)
	if err != nil {
		return Reply{}, Changes{}, fmt.Errorf("session %s: %w", s.id.Session, err)
	}
	checkpointing{s}.settle(&ch)
	return reply, ch, nil
}

// Generation counts restores, from 1; those that etcd has lost, too, if a state tells of them.
func (s *State) Generation() uint64 { return s.generation }

// World is the number of ranks.
func (s *State) World() uint32 { return s.world }

// Closed is the number of closed epochs.
func (s *State) Closed() uint32 { return s.closed }

// Finished reports whether all epochs are closed.
func (s *State) Finished() bool { return s.closed == s.id.Epochs }

// Failure says why the session failed, or is empty.
func (s *State) Failure() string { return s.failure }

// BadData reports whether the session failed because data cannot be read, or changed.
func (s *State) BadData() bool { return s.badData }

// Skipped lists what was left out, and counts the row groups, with those that are known of by number only.
func (s *State) Skipped() (list []Skipped, rowGroups uint32) { return s.skipped, s.skippedRowGroups() }

// InFlight reports whether a block is planned and has positions that are held, returned or not yet granted.
func (s *State) InFlight(epoch, index uint32) bool {
	_, ok := s.blocks.find(position.Position{Epoch: epoch, Block: index})
	return ok
}

// Held is what a rank holds and has not consumed, shard by shard.
func (s *State) Held(r uint32) []position.Interval {
	if k := s.rank(r); k != nil {
		return s.blocks.split(k.held)
	}
	return nil
}

// Pieces is what a rank holds in deterministic order, and where the blocks begin.
func (s *State) Pieces(r uint32) ([]Piece, []LaneStart) {
	k := s.rank(r)
	if k == nil || k.departed {
		return nil, nil
	}
	return s.policy().pieces(r, k), s.policy().starts(k)
}

// batch is the number of rows of a rank's batch.
func (s *State) batch() uint64 {
	if s.id.GlobalBatch > 0 {
		return s.id.GlobalBatch / uint64(s.world)
	}
	return s.id.BatchSize
}

// closeEpochs closes all epochs of which nothing is held, returned or ungranted any more.
func (s *State) closeEpochs(ch *Changes) {
	for s.closed < s.id.Epochs && s.policy().over(s.closed) {
		s.abandon(s.closed)
		s.endSteps()
		s.closeBadRows()
		s.closed++
		s.forgetLeft(ch)
		start := position.Position{Epoch: s.closed}
		s.policy().forget(start)
		s.blocks.forget(s.closed)
		for _, k := range s.ranks {
			if k != nil { // rank keys are pruned when they are read: only the head needs writing
				k.revoked = k.revokedSince(start)
			}
		}
		s.baseVersion++
		ch.Head = true
	}
	s.forgetConsumed()
}

// forgetConsumed forgets what was consumed of closed epochs when no training loop is in them any more, nor begins in
// them. Until then, a State tells what others consumed who leave. Where ranks are not in step, loops may be far behind,
// and only the newest closed epoch is kept. Where outputs are counted, no State needs any.
func (s *State) forgetConsumed() {
	if s.kept == s.closed {
		return
	}
	start := position.Position{Epoch: s.policy().keep()}
	if s.kept == start.Epoch {
		return
	}
	s.forgetBadRows(start.Epoch)
	s.kept = start.Epoch
	s.base = from(s.base, start)
	for _, k := range s.ranks {
		if k != nil {
			k.consumed = from(k.consumed, start)
		}
	}
}

// at is where a rank's training loop is, or will be when it joins. Closed epochs are before it.
func (s *State) at(k *rank) Steps {
	n := s.begun
	if k != nil {
		n = k.steps
	}
	if n.Epoch < s.closed {
		return Steps{Epoch: s.closed}
	}
	return n
}

// before reports whether a set has positions before p.
func before(s position.Set, p position.Position) bool { return len(s) > 0 && s[0].From.Less(p) }

// from returns the part of a set at and after p.
func from(s position.Set, p position.Position) position.Set {
	if !before(s, p) {
		return s
	}
	return s.Subtract(position.Set{{To: p}})
}

// within is the part of a set that lies in an epoch.
func within(s position.Set, epoch uint32) position.Set {
	all := position.Interval{From: position.Position{Epoch: epoch}, To: position.Position{Epoch: epoch + 1}}
	switch {
	case len(s) == 0 || !s[0].From.Less(all.To):
		return nil
	case !s[0].From.Less(all.From) && !all.To.Less(s[len(s)-1].To): // most often
		return slices.Clip(s)
	}
	return s.Intersect(position.Set{all})
}
