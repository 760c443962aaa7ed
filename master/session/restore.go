package session

import (
	"cmp"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
)

// A restore is collective. Each rank of the new world joins with the states that it brings, or with none, and calls
// again until it is told RESTORED. When all ranks are there, a round of calls shows that none of them is left from an
// earlier attempt that died; the last call of the round merges the states and begins the next generation, in
// one change of the head. A rank's part lies in its own key, and is void unless the head names its attempt.
//
// The states may be of this session or of any other that cuts the same files in the same way: what they say is
// complete in itself, and their positions mean the same rows. All that the session knows of itself is thrown
// away but for its generation, which must not repeat one whose ranks may still call.
type restore struct {
	attempt uint64 // counts attempts; the newest is under way unless it made this generation
	round   uint64 // counts arrivals
	world   uint32
	parts   []*part // by rank; nil: not there yet. Empty if none is under way
}

// part is what one rank brought.
type part struct {
	nonce  string
	round  uint64 // of the newest call
	states []Checkpoint
	// otherCode is what the code of the states has otherwise than the session's.
	otherCode []string
}

// Checkpoint is a State that a trainer took. See pb.State. Its base is as old as the trainer's last Sync: if a rank
// left since, its state is missing and the restore is refused, for what it consumed is not known. If a rank joined
// since, that its state is missing is not seen: that a rank of the world never joined is no reason to refuse.
type Checkpoint struct {
	Version                      uint32
	Session                      string
	Generation                   uint64
	Rank, World, Closed          uint32
	MasterClosed                 uint32 // epochs that the master had closed, as of Base
	Base, Consumed               position.Set
	BaseVersion                  uint64
	Members, Departed            []uint32
	ProgramDigest, DatasetDigest string
	PlannerDigest                string
	Code                         *pb.Code // of its session; nil: it had none
	Handed                       uint64   // batches of the epoch that the training loop is in
	Rows                         int64    // handed over in this generation
	DepartedRows                 []int64
	Fingerprint                  *pb.Fingerprint
	Skipped                      uint32         // row groups that on_error let be left out, as of Base
	Skips, BaseSkips             position.Tally // bad rows that were left out beside Consumed, and beside Base
	// of earlier releases: Base has all of an epoch, and steps of it may come later
	Foresees  bool
	LastBatch pb.LastBatch // of its session
	Table     string       // dataset.uri of its session, if that is a table
	// Base has what ranks that left got of each closed epoch that the loop has not ended
	Remembers bool
	// Of order DETERMINISTIC: rows of a step, and the newest known block at whose start no lane is past Handed.
	GlobalBatch uint64
	Start       LaneStart
	Indexes     []BlockIndexes // of the blocks that were not consumed; nil: it does not tell
}

const (
	// checkpointVersion is the version of Checkpoint that this package reads.
	checkpointVersion = 1
	// maxGeneration bounds generations from outside, so that there are later ones.
	maxGeneration = 1 << 62
)

func (r *restore) forget(rank uint32) {
	if int64(rank) < int64(len(r.parts)) {
		r.parts[rank] = nil
	}
}

// restoreWith takes in one rank's call.
func (c Join) restoreWith(s *State, ch *Changes) (Reply, error) {
	for _, p := range c.Restore {
		if err := s.admit(p); err != nil {
			return Reply{}, err
		}
		if err := s.admitCode(p); err != nil && !c.AcceptCode {
			return Reply{}, err
		}
	}
	other := s.otherCode(c.Restore)
	c.Restore = withoutCode(c.Restore)
	next := s.restore.arrive(c, other)
	if waiting := next.waiting(); len(waiting) > 0 {
		if next.at(c.Rank) != s.restore.at(c.Rank) {
			ch.Head = ch.Head || next.round != s.restore.round
			ch.rank(c.Rank)
		}
		s.restore = next
		return s.common(Reply{Generation: s.generation, WaitingFor: waiting}, 0), nil
	}
	m, err := merge(next.parts)
	if err == nil {
		m, err = s.policy().fit(m, next.world)
	}
	if err != nil {
		return Reply{}, err
	}
	s.restore = next
	other = nil
	ranks := make([]*rank, next.world)
	for i, p := range next.parts {
		ranks[i] = p.started(s.rank(uint32(i)), m.begun())
		other = append(other, p.otherCode...)
	}
	s.rewind(m, ranks, ch)
	ch.rank(c.Rank)
	reply := s.welcome(s.ranks[c.Rank])
	slices.Sort(other)
	reply.OtherCode = slices.Compact(other)
	return reply, nil
}

// arrive is the restore after a call. A rank that was not there begins a new round; one of another world size begins
// a new attempt. The states that the rank brings may be of other code than the session's.
func (r restore) arrive(c Join, otherCode []string) restore {
	if len(r.parts) == 0 || r.world != c.World {
		r.attempt++
		r.world = c.World
		r.parts = make([]*part, c.World)
	}
	r.parts = slices.Clone(r.parts)
	old := r.parts[c.Rank]
	switch {
	case old == nil || old.nonce != c.Nonce:
		r.round++
		r.parts[c.Rank] = &part{nonce: c.Nonce, round: r.round, states: c.Restore, otherCode: otherCode}
	case old.round != r.round && !slices.Contains(r.parts, nil): // until all are there, a repeated call changes nothing
		r.parts[c.Rank] = &part{nonce: old.nonce, round: r.round, states: old.states, otherCode: old.otherCode}
	}
	return r
}

func (r *restore) at(rank uint32) *part {
	if int64(rank) < int64(len(r.parts)) {
		return r.parts[rank]
	}
	return nil
}

// waiting names the ranks that are not there, or else those that did not call in this round.
func (r *restore) waiting() []uint32 {
	var missing, silent []uint32
	for i, p := range r.parts {
		switch {
		case p == nil:
			missing = append(missing, uint32(i))
		case p.round != r.round:
			silent = append(silent, uint32(i))
		}
	}
	if len(missing) > 0 {
		return missing
	}
	return silent
}

// admit checks what can be said of one state by itself.
func (s *State) admit(p Checkpoint) error {
	beyond := from(p.Base.Union(p.Consumed), position.Position{Epoch: s.id.Epochs})
	switch {
	case p.Version != checkpointVersion:
		return refused("the state of rank %d has version %d, this master reads version %d",
			p.Rank, p.Version, checkpointVersion)
	case p.ProgramDigest != s.id.ProgramDigest:
		return refused("the state of rank %d is of another spec, or of other side tables or statistics: program "+
			"digest %x, the session's is %x", p.Rank, p.ProgramDigest, s.id.ProgramDigest)
	case p.DatasetDigest != s.id.DatasetDigest:
		return refused("the state of rank %d is of another version of the dataset: digest %x, the session's is %x",
			p.Rank, p.DatasetDigest, s.id.DatasetDigest)
	case p.PlannerDigest != s.id.PlannerDigest:
		return refused(
			"the state of rank %d is of a dataset that was cut otherwise, by another release of penstock or into "+
				"blocks, shards or windows of other sizes: "+
				"planner digest %x, the session's is %x; restore it with the release and the settings that "+
				"it was taken "+
				"under", p.Rank, p.PlannerDigest, s.id.PlannerDigest)
	case p.Generation == 0 || p.Generation > maxGeneration:
		return refused("the state of rank %d is of generation %d; generations count from 1", p.Rank, p.Generation)
	case p.Session == s.id.Session && p.Generation > s.generation && !s.untouched():
		return refused(
			"the state of rank %d is of generation %d, the session is at %d and has granted rows: etcd is older "+
				"than the checkpoint. "+
				"See that the job that took it has ended, then delete the session, or restore under another session id",
			p.Rank, p.Generation, s.generation)
	case p.World == 0 || p.World > maxWorld || p.Rank >= p.World:
		return refused("the state says rank %d of %d", p.Rank, p.World)
	case len(p.DepartedRows) != len(p.Departed):
		return refused("the state of rank %d names %d ranks that left, and says of %d how many rows they handed over",
			p.Rank, len(p.Departed), len(p.DepartedRows))
	case p.Handed > maxSteps:
		return refused("the state of rank %d has handed over %d batches in one epoch", p.Rank, p.Handed)
	case p.Closed > s.id.Epochs:
		return refused("the state of rank %d has ended %d epochs, the session has %d", p.Rank, p.Closed, s.id.Epochs)
	case len(beyond) > 0:
		return refused("the state of rank %d has consumed %v, the session has %d epochs",
			p.Rank, beyond[0], s.id.Epochs)
	}
	if err := p.admitIndexes(); err != nil {
		return err
	}
	return s.policy().admitState(p)
}

// untouched reports whether the session is new and nobody was ever granted anything. A state of its id is from before
// etcd was lost, then.
func (s *State) untouched() bool {
	granted := func(k *rank) bool { return k != nil && s.policy().granted(k) }
	return s.generation == 1 && !slices.ContainsFunc(s.ranks, granted)
}

// merged is what a restore goes on from.
type merged struct {
	base       position.Set
	closed     uint32
	session    string // of the states
	generation uint64
	handed     uint64
	skipped    uint32
	skips      position.Tally // bad rows that were left out beside base
	global     uint64         // rows of a step, of order DETERMINISTIC
	start      LaneStart      // where planning begins there
	indexes    []BlockIndexes
}

// begun is where the training loops of the next generation begin.
func (m merged) begun() Steps { return Steps{Epoch: m.closed, Handed: m.handed, Ready: m.handed} }

// merge checks the states of all parts against each other and joins them.
func merge(parts []*part) (merged, error) {
	var states []Checkpoint
	for _, p := range parts {
		states = append(states, p.states...)
	}
	if len(states) == 0 {
		return merged{}, refused("all %d ranks joined to restore, and none brought a state", len(parts))
	}
	slices.SortStableFunc(states, func(a, b Checkpoint) int { return cmp.Compare(a.Rank, b.Rank) })
	merge := mergeSets
	if laneStates(states) {
		merge = mergeLanes
	}
	m, err := merge(states)
	if err == nil {
		m.indexes, err = mergeIndexes(states)
	}
	return m, err
}

// mergeSets is merge of states that say what was consumed. They are sorted by rank.
func mergeSets(states []Checkpoint) (merged, error) {
	newest := slices.MaxFunc(states, func(a, b Checkpoint) int { return cmp.Compare(a.BaseVersion, b.BaseVersion) })
	var whole position.Set
	for _, p := range states {
		whole = whole.Union(wholeEpochs(p.Base, newest.Closed))
	}
	newest.Base = newest.Base.Union(whole)
	if err := agree(states, newest, whole); err != nil {
		return merged{}, err
	}
	m := merged{
		base: newest.Base, closed: newest.Closed, session: newest.Session, generation: newest.Generation,
		handed: newest.Handed, skipped: newest.Skipped, skips: newest.BaseSkips,
	}
	owned := []owned{{set: newest.Base, owner: "the base"}}
	for _, p := range states {
		set := p.Consumed
		if slices.Contains(newest.Departed, p.Rank) { // the base holds all or most of it
			set = set.Subtract(newest.Base)
		} else {
			m.skips = m.skips.Plus(p.Skips)
		}
		set = set.Subtract(whole)
		owned = append(owned, ownedBy(p.Rank, set))
		m.base = append(slices.Clip(m.base), set...)
	}
	if err := disjoint(owned); err != nil {
		return merged{}, refused("the states overlap: %w", err)
	}
	m.base = from(position.NewSet(m.base...), position.Position{Epoch: m.closed})
	return m, nil
}

// wholeEpochs is the part of a base that is whole epochs, from one on: trainers of earlier releases that heard that
// they closed said so, where their training loops had not ended them, and others may not have heard of it.
func wholeEpochs(base position.Set, epoch uint32) position.Set {
	start := position.Position{Epoch: epoch}
	base = from(base, start)
	if len(base) == 0 || start.Less(base[0].From) {
		return nil
	}
	return position.NewSet(position.Interval{From: start, To: position.Position{Epoch: base[0].To.Epoch}})
}

// agree checks that states are of one collective, which is complete. They are sorted by rank. Some of them have whole
// epochs.
func agree(states []Checkpoint, newest Checkpoint, whole position.Set) error {
	foreseen := slices.ContainsFunc(states, func(p Checkpoint) bool { return p.Foresees })
	for i, p := range states {
		switch {
		case i > 0 && states[i-1].Rank == p.Rank:
			return refused("the state of rank %d was brought twice; each belongs in one Join", p.Rank)
		case p.Session != newest.Session:
			return refused("the state of rank %d is of session %q, that of rank %d of session %q",
				p.Rank, p.Session, newest.Rank, newest.Session)
		case p.Generation != newest.Generation:
			return refused("the state of rank %d is of generation %d, that of rank %d of generation %d",
				p.Rank, p.Generation, newest.Rank, newest.Generation)
		case p.World != newest.World:
			return refused("the state of rank %d says world size %d, that of rank %d says %d",
				p.Rank, p.World, newest.Rank, newest.World)
		case p.Closed != newest.Closed:
			return refused(
				"the state of rank %d has ended %d epochs, that of rank %d has ended %d: they are not of the same step",
				p.Rank, p.Closed, newest.Rank, newest.Closed)
		case p.Handed != newest.Handed && !slices.Contains(newest.Departed, p.Rank):
			return refused(
				"the state of rank %d was taken after %d batches of its epoch, that of rank %d after %d: they are "+
					"not of the same step, "+
					"and ranks that wait for each other after each batch would do so for ever",
				p.Rank, p.Handed, newest.Rank, newest.Handed)
		// it may have got the rest later
		case foreseen && !p.Base.Covers(whole) && !slices.Contains(newest.Departed, p.Rank):
			return refused(
				"the state of rank %d was taken before the end of epoch %d, and that of another rank has all of it, "+
					"also what went into later steps; "+
					"restore another checkpoint, or a named one, which is never taken so", p.Rank, p.Closed)
		case !newest.Base.Covers(from(p.Base, position.Position{Epoch: newest.Closed})):
			if newest.behind() {
				return newest.tooOld()
			}
			return refused("the base of rank %d's state is not part of the newer one of rank %d", p.Rank, newest.Rank)
		}
		if left := newest.rowsOfDeparted(p.Rank); left >= 0 && p.Rows != left {
			return refused(
				"the state of rank %d was taken after %d rows of this rank, but it left after %d, as the state of "+
					"rank %d knows: "+
					"they are not of the same step; restore states that all ranks took at one step",
				p.Rank, p.Rows, left, newest.Rank)
		}
	}
	if !newest.Base.Covers(newest.forgotten()) {
		return newest.tooOld()
	}
	members := newest.Members
	if len(members) == 0 {
		for r := range newest.World {
			members = append(members, r)
		}
	}
	var missing []uint32
	for _, r := range members {
		_, brought := slices.BinarySearchFunc(states, r,
			func(p Checkpoint, r uint32) int { return cmp.Compare(p.Rank, r) })
		if !brought && !slices.Contains(newest.Departed, r) {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		return refused("nobody brought the states of ranks %d", missing)
	}
	return nil
}

// forgotten are the closed epochs in which the training loop still was, or was to come to, but for the newest closed
// one, if ranks left: what these consumed there the master does not know any more.
func (p Checkpoint) forgotten() position.Set {
	if len(p.Departed) == 0 || !p.behind() {
		return nil
	}
	return position.Set{{From: position.Position{Epoch: p.Closed}, To: position.Position{Epoch: p.MasterClosed - 1}}}
}

// behind reports whether the training loop was too far behind the master for it to know what others got there: see
// forgetConsumed. Base may lack then what they got before they left, also if they came back and tell of it.
func (p Checkpoint) behind() bool { return !p.Remembers && p.MasterClosed > p.Closed+1 }

// tooOld refuses a State that lacks what is forgotten.
func (p Checkpoint) tooOld() error {
	return refused(
		"the training loop of rank %d was in epoch %d when the master had closed %d, and what ranks got of that "+
			"epoch before they left "+
			"is forgotten; restore states that were taken when no rank was more than an epoch behind",
		p.Rank, p.Closed, p.MasterClosed)
}

// rowsOfDeparted is how many rows a rank had handed over when it left, or -1 if it has not.
func (p Checkpoint) rowsOfDeparted(rank uint32) int64 {
	if i := slices.Index(p.Departed, rank); i >= 0 {
		return p.DepartedRows[i]
	}
	return -1
}

// rewind begins the next generation. It is later than the states', if they are of this session: starts of theirs may
// still call, and etcd may have been lost since.
func (s *State) rewind(m merged, ranks []*rank, ch *Changes) {
	if m.session == s.id.Session {
		s.generation = max(s.generation, m.generation)
	}
	s.generation++
	s.restored = s.restore.attempt
	s.closed, s.kept, s.base, s.failure, s.badData = m.closed, m.closed, m.base, "", false
	quarantine{s}.rewindSkipped(m)
	s.rewindBadRows(m)
	s.baseVersion++
	s.begun = m.begun()
	s.leftEpochs = nil
	s.steps, s.stepsClosed, s.stepsLost, s.promised = nil, -int64(m.handed), false, 0
	if s.taking.active() {
		checkpointing{s}.giveUp(ch, "the session was restored")
	}
	s.from, s.restoredBy = RestoredFrom{}, ""
	s.members, s.world = newMembers(ranks), uint32(len(ranks))
	s.restore.parts = nil
	s.rewindIndexes(m)
	s.policy().rewind(m)
	ch.Head = true
	s.closeEpochs(ch)
}

// started is the rank that a part became.
func (p *part) started(old *rank, begun Steps) *rank {
	k := &rank{
		incarnation: 1, nonce: p.nonce, kind: pb.JoinKind_RESTORED, revision: 1,
		steps: begun, begun: begun, joined: 1, heard: 1,
	}
	if old != nil {
		k.incarnation, k.revision = old.incarnation+1, old.revision+1
	}
	return k
}

// fitsWorld holds that steps can be divided among so many ranks.
func (id *Identity) fitsWorld(world uint32) error {
	switch {
	case id.GlobalBatch%uint64(world) != 0:
		return refused("world size %d does not divide the %d rows of the session's steps; have another number of ranks",
			world, id.GlobalBatch)
	case id.GlobalBatch/uint64(world) > spec.MaxBatchSize:
		return refused(
			"the %d rows of the session's steps make batches of %d rows for each of %d ranks, and the most is %d; "+
				"have more ranks",
			id.GlobalBatch, id.GlobalBatch/uint64(world), world, spec.MaxBatchSize)
	}
	return nil
}
