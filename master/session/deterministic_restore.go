package session

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// A state in order DETERMINISTIC says how many steps were handed over and where the newest block begins that no lane is
// past: all ranks' states of a step say the same, and any one of them restores the job. Planning begins with that
// block.

// maxEpochRows bounds the rows of an epoch from outside, so that numbers of rows can be added.
const maxEpochRows = 1 << 46

// laneStates reports whether states are of order DETERMINISTIC. One that says no more than that epochs are closed may
// be of any order.
func laneStates(states []Checkpoint) bool {
	return slices.ContainsFunc(states, func(p Checkpoint) bool { return p.GlobalBatch > 0 })
}

// admitState checks a state that is brought against the order.
func (s deterministic) admitState(p Checkpoint) error {
	switch {
	case p.GlobalBatch == 0 && (p.Handed > 0 || len(p.Base)+len(p.Consumed) > 0):
		return refused(
			"the state of rank %d is of order fast, the session's is deterministic; open a session whose spec says "+
				"order: fast", p.Rank)
	case len(p.Base)+len(p.Consumed) > 0:
		return refused("the state of rank %d has consumed intervals, which states of deterministic order have not",
			p.Rank)
	case p.Handed > 0 && len(p.Start.Rows) == 0:
		return refused("the state of rank %d names no block at which to begin", p.Rank)
	case p.Start.Block > 0 && len(p.Start.Rows) == 0:
		return refused("the state of rank %d begins at block %d, and does not say where that lies in the lanes",
			p.Rank, p.Start.Block)
	case len(p.Start.Rows) > 0 && uint32(len(p.Start.Rows)) != s.id.Lanes:
		return refused(
			"the state of rank %d has %d lanes, the session has %d; open a session whose spec says lanes: %d",
			p.Rank, len(p.Start.Rows), s.id.Lanes, len(p.Start.Rows))
	case len(p.Start.Rows) > 0 && p.Start.Epoch != p.Closed:
		return refused("the state of rank %d is in epoch %d, and names a block of epoch %d at which to begin",
			p.Rank, p.Closed, p.Start.Epoch)
	case p.Start.Block > 0 && p.Closed == s.id.Epochs:
		return refused("the state of rank %d has ended all %d epochs, and names block %d at which to begin",
			p.Rank, p.Closed, p.Start.Block)
	case p.GlobalBatch > 0 && p.Handed > maxEpochRows/p.GlobalBatch:
		return refused("the state of rank %d has handed over %d steps of %d rows in one epoch",
			p.Rank, p.Handed, p.GlobalBatch)
	case p.GlobalBatch%uint64(s.id.Lanes) != 0 || p.GlobalBatch > maxSteps:
		return refused("the state of rank %d has steps of %d rows in %d lanes", p.Rank, p.GlobalBatch, s.id.Lanes)
	}
	if beyond := slices.IndexFunc(p.Start.Rows,
		func(n uint64) bool { return n > p.Handed*(p.GlobalBatch/uint64(s.id.Lanes)) }); beyond >= 0 {
		return refused(
			"the state of rank %d was taken after %d steps of %d rows, and lane %d is past it where block %d begins",
			p.Rank, p.Handed, p.GlobalBatch, beyond, p.Start.Block)
	}
	return nil
}

// mergeLanes checks that states are of the same step, and takes the newest block that one of them knows.
func mergeLanes(states []Checkpoint) (merged, error) {
	first := states[0]
	m := merged{
		closed: first.Closed, session: first.Session, generation: first.Generation, handed: first.Handed,
		global: first.GlobalBatch, skipped: first.Skipped,
	}
	var base, own position.Tally // of ranks that bring no state, nobody knows what they left out
	for i, p := range states {
		switch {
		case i > 0 && states[i-1].Rank == p.Rank: //nolint:gosec // i is above 0
			return merged{}, refused("the state of rank %d was brought twice; each belongs in one Join", p.Rank)
		case p.Session != first.Session || p.Generation != first.Generation:
			return merged{}, refused(
				"the state of rank %d is of session %q, generation %d, that of rank %d of session %q, generation %d",
				p.Rank, p.Session, p.Generation, first.Rank, first.Session, first.Generation)
		case p.Closed != first.Closed || p.Handed != first.Handed:
			return merged{}, refused(
				"the state of rank %d was taken after %d batches of epoch %d, that of rank %d after %d of epoch %d: "+
					"they are not of the same step",
				p.Rank, p.Handed, p.Closed, first.Rank, first.Handed, first.Closed)
		case p.GlobalBatch != first.GlobalBatch:
			return merged{}, refused("the state of rank %d has steps of %d rows, that of rank %d of %d",
				p.Rank, p.GlobalBatch, first.Rank, first.GlobalBatch)
		case p.Start.Block > m.start.Block || m.start.Rows == nil:
			m.start = p.Start
		}
		base, own = base.Max(p.BaseSkips), own.Plus(p.Skips)
	}
	m.skips = base.Plus(own)
	return m, nil
}

// fit counts the steps that were handed over in the session's own ones, which may have other numbers of rows. The world
// must fit, too.
func (s deterministic) fit(m merged, world uint32) (merged, error) {
	if s.id.Lanes%world != 0 {
		return m, refused("world size %d does not divide the session's %d lanes; have another number of ranks",
			world, s.id.Lanes)
	}
	if err := s.id.fitsWorld(world); err != nil || m.global == s.id.GlobalBatch || m.handed == 0 {
		return m, err
	}
	rows := m.handed * m.global
	if rows%s.id.GlobalBatch != 0 {
		return m,
			refused(
				"the states were taken after %d steps of %d rows, which is between two steps of this session, of %d "+
					"rows; "+
					"open one whose spec says global_batch_size: %d", m.handed, m.global, s.id.GlobalBatch, m.global)
	}
	m.handed = rows / s.id.GlobalBatch
	return m, nil
}

// load lays the blocks out in the lanes.
func (s deterministic) load(head *pb.SessionHead) error {
	for i, b := range s.blocks.list {
		rows := make([]uint64, s.id.Lanes)
		switch {
		case i == 0:
			rows = head.GetBlocks()[0].GetLaneRows()
		case s.blocks.list[i-1].epoch == b.epoch:
			rows = s.blocks.list[i-1].lanes.after
		}
		if uint32(len(rows)) != s.id.Lanes {
			return fmt.Errorf("block %d of epoch %d begins in %d lanes, and the session has %d",
				b.index, b.epoch, len(rows), s.id.Lanes)
		}
		s.blocks.list[i].lanes = b.lay(rows)
	}
	return nil
}

// rewind has planning begin where the states say. Blocks that were planned in another generation are planned again.
func (s deterministic) rewind(m merged) {
	s.blocks.list, s.blocks.epochs, s.base, s.returned = nil, nil, nil, nil
	s.frontier = position.Position{Epoch: m.closed, Block: m.start.Block}
	if m.start.Block > 0 {
		s.blocks.epochs = []epochPlan{{epoch: m.closed, planned: m.start.Block, lanes: m.start.Rows}}
	}
}

// check verifies that blocks lie one behind the other in the lanes, up to the frontier, and that ranks are where they
// can be.
func (s deterministic) check() error {
	if len(s.base)+len(s.returned) > 0 {
		return fmt.Errorf("session %s: positions are consumed or returned one by one in deterministic order: %v, %v",
			s.id.Session, s.base, s.returned)
	}
	for i, b := range s.blocks.list {
		next, rows := s.frontier, s.laneRows(b.epoch)
		if i+1 < len(s.blocks.list) {
			next = s.blocks.list[i+1].start()
			if next.Epoch == b.epoch {
				rows = s.blocks.list[i+1].lanes.before
			}
		}
		if b.end() != next || !slices.Equal(b.lanes.after, rows) {
			return fmt.Errorf(
				"session %s: block %d of epoch %d ends at %v with lanes of %d rows, and the next begins at %v with %d",
				s.id.Session, b.index, b.epoch, b.end(), b.lanes.after, next, rows)
		}
	}
	for i, k := range s.ranks {
		switch {
		case k == nil:
		case len(k.held)+len(k.consumed)+len(k.releasing)+len(k.revoked) > 0:
			return fmt.Errorf("session %s: rank %d has intervals in deterministic order", s.id.Session, i)
		case k.steps.Epoch > s.closed+2:
			return fmt.Errorf("session %s: rank %d is in epoch %d, and the open one is %d",
				s.id.Session, i, k.steps.Epoch, s.closed)
		}
	}
	return nil
}

// LaneStartFromProto reads a start; nil is none.
func LaneStartFromProto(m *pb.LaneStart) LaneStart {
	return LaneStart{Epoch: m.GetEpoch(), Block: m.GetBlock(), Rows: m.GetRows()}
}

// Proto returns l as it crosses the wire; nil if it is none.
func (l LaneStart) Proto() *pb.LaneStart {
	if len(l.Rows) == 0 {
		return nil
	}
	return &pb.LaneStart{Epoch: l.Epoch, Block: l.Block, Rows: l.Rows}
}
