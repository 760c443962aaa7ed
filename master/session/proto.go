package session

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Head is the state's part in s/ID/head.
func (s *State) Head() *pb.SessionHead {
	h := &pb.SessionHead{
		Generation: s.generation, Frontier: s.frontier.Proto(),
		Returned: s.returned.Proto(), Base: s.base.Proto(), BaseVersion: s.baseVersion,
		ClosedEpochs: s.closed, WorldSize: s.world, Failure: s.failure,
		SeenBlocks: s.blocks.seen.blocks, SeenShards: s.blocks.seen.shards,
		RestoreAttempt: s.restore.attempt, RestoreRound: s.restore.round, RestoreWorldSize: s.restore.world,
		Restored: s.restored, Steps: EpochStepsProto(s.steps), Begun: s.begun.Proto(), Promised: s.promised,
		Skipped: SkippedProto(s.skipped), SkippedBefore: s.skippedBefore, BadData: s.badData,
		BaseSkips: s.badRows.base.Proto(), PastSkips: s.badRows.past.Proto(), BadRows: BadRowsProto(s.badRows.named),
		Checkpoint: s.taking.proto(), RestoredFrom: s.from.Proto(), RestoredBy: s.restoredBy,
		Indexes: BlockIndexesProto(s.indexes),
	}
	h.Left, h.AbandonedEpochs, h.AbandonedShards = EpochStepsProto(s.leftEpochs), s.abandonedEpochs, s.abandonedShards
	if !s.stepsLost {
		h.StepsClosed = proto.Int64(s.stepsClosed)
	}
	for i, b := range s.blocks.list {
		m := &pb.PlannedBlock{Epoch: b.epoch, Index: b.index, Blocks: b.blocks, Shards: b.shards}
		if i == 0 && b.lanes != nil { // where the others begin follows
			m.LaneRows = b.lanes.before
		}
		h.Blocks = append(h.Blocks, m)
	}
	for _, e := range s.blocks.epochs {
		h.Epochs = append(h.Epochs, &pb.PlannedEpoch{
			Epoch: e.epoch, Blocks: e.blocks, Planned: e.planned, Rows: e.rows,
			LaneRows: e.lanes,
		})
	}
	return h
}

// Rank is rank r's part in s/ID/rank/R, or nil if it has none.
func (s *State) Rank(r uint32) *pb.SessionRank {
	k, p := s.rank(r), s.restore.at(r)
	if k == nil && p == nil {
		return nil
	}
	m := &pb.SessionRank{Generation: s.generation}
	if k != nil {
		m.Incarnation, m.Nonce, m.Kind, m.Revision = k.incarnation, k.nonce, k.kind, k.revision
		m.Held, m.Consumed, m.Revoked = k.held.Proto(), k.consumed.Proto(), k.revoked.Proto()
		m.ConsumedSkips = k.skips.Proto()
		m.Releasing, m.Asked, m.Answered, m.Idle = k.releasing.Proto(), k.asked, k.answered, k.idle
		m.Departed, m.Expired = k.departed, k.expired
		m.MayRepeat, m.AtRisk = k.mayRepeat, k.atRisk
		m.Told = EpochStepsProto(k.told)
		m.Steps, m.Begun, m.Joined, m.Heard = k.steps.Proto(), k.begun.Proto(), k.joined, k.heard
		m.Counters, m.Earlier, m.BegunStep = k.counters.Proto(), k.earlier.Proto(), k.begunStep
		if k.part != nil {
			m.Checkpoint = &pb.CheckpointPart{Id: s.taking.id, State: k.part.Proto()}
		}
	}
	if p != nil {
		m.Restoring = p.proto(s.restore.attempt)
	}
	return m
}

// Load reads the state back from its keys, and checks it. Where outputs are counted, blocks are those that the head
// names, and maybe others.
func Load(
	id Identity, head *pb.SessionHead, ranks map[uint32]*pb.SessionRank, blocks []*pb.Block,
	checkpoints []*pb.Checkpoint,
) (*State, error) {
	if w := head.GetWorldSize(); w == 0 || w > maxWorld || head.GetRestoreWorldSize() > maxWorld {
		return nil, fmt.Errorf("session %s: head in etcd: world sizes %d and %d are not between 1 and %d",
			id.Session, w, head.GetRestoreWorldSize(), maxWorld)
	}
	s := &State{
		id: id, generation: head.GetGeneration(), world: head.GetWorldSize(), closed: head.GetClosedEpochs(),
		frontier: position.FromProto(head.GetFrontier()),
		returned: position.SetFromProto(head.GetReturned()), base: position.SetFromProto(head.GetBase()),
		baseVersion: head.GetBaseVersion(), failure: head.GetFailure(), badData: head.GetBadData(),
		badRows: badRows{
			base: position.TallyFromProto(head.GetBaseSkips()), past: position.TallyFromProto(head.GetPastSkips()),
			named: BadRowsFromProto(head.GetBadRows()),
		},
		indexes: BlockIndexesFromProto(head.GetIndexes()),
		skipped: skippedFromProto(head.GetSkipped()), skippedBefore: head.GetSkippedBefore(),
		blocks:   plannedBlocks{seen: seen{blocks: head.GetSeenBlocks(), shards: head.GetSeenShards()}},
		restored: head.GetRestored(), members: members{ranks: make([]*rank, head.GetWorldSize())},
		steps: epochStepsFromProto(head.GetSteps()), begun: stepsFromProto(head.GetBegun()),
		promised: head.GetPromised(), stepsClosed: head.GetStepsClosed(), stepsLost: head.StepsClosed == nil,
		restore: restore{
			attempt: head.GetRestoreAttempt(), round: head.GetRestoreRound(),
			world: head.GetRestoreWorldSize(),
		},
	}
	s.passes = passes{epochStepsFromProto(head.GetLeft()), head.GetAbandonedEpochs(), head.GetAbandonedShards()}
	s.taking, s.from, s.restoredBy = takingFromProto(head.GetCheckpoint()), restoredFromProto(head.GetRestoredFrom()),
		head.GetRestoredBy()
	for _, m := range checkpoints {
		n := NamedFromProto(m)
		s.named = append(s.named, &n)
	}
	slices.SortFunc(s.named, func(a, b *Named) int { return byName(a, b.Name) })
	for _, b := range head.GetBlocks() {
		s.blocks.list = append(s.blocks.list, block{
			epoch: b.GetEpoch(), index: b.GetIndex(), blocks: b.GetBlocks(),
			shards: b.GetShards(),
		})
	}
	if err := s.loadCounts(blocks); err != nil {
		return nil, fmt.Errorf("session %s: %w", id.Session, err)
	}
	for _, e := range head.GetEpochs() {
		s.blocks.epochs = append(s.blocks.epochs, epochPlan{
			epoch: e.GetEpoch(), blocks: e.GetBlocks(),
			planned: e.GetPlanned(), rows: e.GetRows(), lanes: e.GetLaneRows(),
		})
	}
	if s.restore.attempt > s.restored {
		s.restore.parts = make([]*part, s.restore.world)
	}
	for r, m := range ranks {
		s.loadRank(r, m)
	}
	s.members = newMembers(s.ranks)
	s.forgetConsumed()
	if err := s.policy().load(head); err != nil {
		return nil, fmt.Errorf("session %s: %w", id.Session, err)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("state in etcd: %w", err)
	}
	return s, nil
}

// loadCounts gives the blocks their outputs.
func (s *State) loadCounts(blocks []*pb.Block) error {
	for _, m := range blocks {
		if i := s.blocks.search(position.Position{Epoch: m.GetEpoch(), Block: m.GetIndex()}); i < len(s.blocks.list) {
			if b := &s.blocks.list[i]; b.epoch == m.GetEpoch() && b.index == m.GetIndex() {
				b.counts = s.countsOf(OutputsOf(m))
			}
		}
	}
	for _, b := range s.blocks.list {
		if b.counts == nil && s.policy().countsOutputs() {
			return fmt.Errorf("block %d of epoch %d, which the head names, does not lie in etcd", b.index, b.epoch)
		}
		if err := b.checkOutputs(); err != nil {
			return err
		}
	}
	return nil
}

// loadRank reads one rank. What the last change of the head made void or older was left in the key.
func (s *State) loadRank(r uint32, m *pb.SessionRank) {
	p, attempt := partFromProto(m.GetRestoring()), m.GetRestoring().GetAttempt()
	if p != nil && attempt == s.restore.attempt && int64(r) < int64(len(s.restore.parts)) {
		s.restore.parts[r] = p
	}
	if r >= s.world {
		return
	}
	switch {
	case m.GetGeneration() == s.generation && m.GetIncarnation() > 0:
		s.ranks[r] = rankFromProto(m, position.Position{Epoch: s.closed})
		if part := m.GetCheckpoint(); part != nil && s.taking.active() && part.GetId() == s.taking.id {
			c := CheckpointFromProto(part.GetState())
			s.ranks[r].part = &c
		}
	case m.GetGeneration() < s.generation && p != nil && attempt == s.restored:
		var old *rank
		if m.GetIncarnation() > 0 {
			old = &rank{incarnation: m.GetIncarnation(), revision: m.GetRevision()}
		}
		s.ranks[r] = p.started(old, s.begun)
	}
}

func rankFromProto(m *pb.SessionRank, closed position.Position) *rank {
	k := &rank{
		incarnation: m.GetIncarnation(), nonce: m.GetNonce(), kind: m.GetKind(), revision: m.GetRevision(),
		held: position.SetFromProto(m.GetHeld()), consumed: position.SetFromProto(m.GetConsumed()),
		skips:     position.TallyFromProto(m.GetConsumedSkips()),
		revoked:   position.SetFromProto(m.GetRevoked()),
		releasing: position.SetFromProto(m.GetReleasing()), asked: m.GetAsked(), answered: m.GetAnswered(),
		idle:     m.GetIdle(),
		departed: m.GetDeparted(), expired: m.GetExpired(), mayRepeat: m.GetMayRepeat(), atRisk: m.GetAtRisk(),
		counters: CountersFromProto(m.GetCounters()), earlier: CountersFromProto(m.GetEarlier()),
		steps: stepsFromProto(m.GetSteps()), begun: stepsFromProto(m.GetBegun()), joined: m.GetJoined(),
		heard:     m.GetHeard(),
		begunStep: m.GetBegunStep(),
		told:      epochStepsFromProto(m.GetTold()),
	}
	k.revoked = k.revokedSince(closed)
	k.forgetRest(closed)
	return k
}

// proto has a base only once that several states tell: of a job of a thousand ranks, one may bring all.
func (p *part) proto(attempt uint64) *pb.RankRestore {
	m := &pb.RankRestore{Attempt: attempt, Round: p.round, Nonce: p.nonce, OtherCode: p.otherCode}
	for i, c := range p.states {
		first := slices.IndexFunc(p.states[:i+1], c.sameBase)
		if first < i {
			c.setBase(Checkpoint{})
		}
		m.States, m.BaseOf = append(m.States, c.Proto()), append(m.BaseOf, uint32(first))
	}
	return m
}

func partFromProto(m *pb.RankRestore) *part {
	if m == nil {
		return nil
	}
	p := &part{nonce: m.GetNonce(), round: m.GetRound(), otherCode: m.GetOtherCode()}
	for i, state := range m.GetStates() {
		c := CheckpointFromProto(state)
		if i < len(m.GetBaseOf()) && int(m.GetBaseOf()[i]) < i {
			c.setBase(p.states[m.GetBaseOf()[i]])
		}
		p.states = append(p.states, c)
	}
	return p
}

// sameBase reports whether two states tell the same of what others consumed.
func (c Checkpoint) sameBase(o Checkpoint) bool {
	return c.BaseVersion == o.BaseVersion && c.Base.Equal(o.Base) && slices.Equal(c.Members, o.Members) &&
		slices.Equal(c.Departed, o.Departed) && slices.Equal(c.DepartedRows, o.DepartedRows) &&
		c.BaseSkips.Equal(o.BaseSkips)
}

// setBase takes over from another state what sameBase compares, but for its version.
func (c *Checkpoint) setBase(o Checkpoint) {
	c.Base, c.Members, c.Departed, c.DepartedRows = o.Base, o.Members, o.Departed, o.DepartedRows
	c.BaseSkips = o.BaseSkips
}

// CountersFromProto reads counters; nil is none.
func CountersFromProto(m *pb.Counters) Counters {
	return Counters{
		Rows: m.GetRows(), Batches: m.GetBatches(), Bytes: m.GetBytes(),
		StallNS: m.GetStallNs(), ComputeNS: m.GetComputeNs(), Failovers: m.GetFailovers(),
	}
}

// Proto returns c as it crosses the wire.
func (c Counters) Proto() *pb.Counters {
	return &pb.Counters{
		Rows: c.Rows, Batches: c.Batches, Bytes: c.Bytes,
		StallNs: c.StallNS, ComputeNs: c.ComputeNS, Failovers: c.Failovers,
	}
}

// CheckpointFromProto reads a trainer's State.
func CheckpointFromProto(m *pb.State) Checkpoint {
	return Checkpoint{
		Version: m.GetVersion(), Session: m.GetSession(), Generation: m.GetGeneration(),
		Rank: m.GetRank(), World: m.GetWorldSize(), Closed: m.GetClosedEpochs(),
		MasterClosed: m.GetMasterClosedEpochs(),
		Base:         position.SetFromProto(m.GetBase()), Consumed: position.SetFromProto(m.GetConsumed()),
		Skips:       position.TallyFromProto(m.GetConsumedSkips()),
		BaseSkips:   position.TallyFromProto(m.GetBaseSkips()),
		BaseVersion: m.GetBaseVersion(), Members: m.GetMembers(), Departed: m.GetDeparted(),
		ProgramDigest: string(m.GetProgramDigest()), DatasetDigest: string(m.GetDatasetDigest()),
		PlannerDigest: string(m.GetPlannerDigest()), Handed: m.GetHanded(),
		Rows: m.GetRows(), DepartedRows: m.GetDepartedRows(), Skipped: m.GetSkippedRowGroups(),
		Fingerprint: m.GetFingerprint(),
		GlobalBatch: m.GetGlobalBatch(), Start: LaneStartFromProto(m.GetStart()), Foresees: m.GetForesees(),
		Remembers: m.GetRemembers(), LastBatch: m.GetLastBatch(), Code: m.GetCode(),
		Indexes: BlockIndexesFromProto(m.GetIndexes()), Table: m.GetTable(),
	}
}

// Proto returns c as it crosses the wire.
func (c Checkpoint) Proto() *pb.State {
	return &pb.State{
		Version: c.Version, Session: c.Session, Generation: c.Generation,
		Rank: c.Rank, WorldSize: c.World, ClosedEpochs: c.Closed, MasterClosedEpochs: c.MasterClosed,
		Base: c.Base.Proto(), Consumed: c.Consumed.Proto(),
		ConsumedSkips: c.Skips.Proto(), BaseSkips: c.BaseSkips.Proto(),
		BaseVersion: c.BaseVersion, Members: c.Members, Departed: c.Departed,
		ProgramDigest: []byte(c.ProgramDigest), DatasetDigest: []byte(c.DatasetDigest),
		PlannerDigest: []byte(c.PlannerDigest), Handed: c.Handed,
		Rows: c.Rows, DepartedRows: c.DepartedRows, SkippedRowGroups: c.Skipped, Fingerprint: c.Fingerprint,
		GlobalBatch: c.GlobalBatch, Start: c.Start.Proto(), Foresees: c.Foresees, Remembers: c.Remembers,
		LastBatch: c.LastBatch, Code: c.Code, Indexes: BlockIndexesProto(c.Indexes), Table: c.Table,
	}
}
