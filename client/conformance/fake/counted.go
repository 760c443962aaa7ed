package fake

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Where outputs are counted (last_batch drop, order deterministic), a master knows an epoch's steps before it is read.

func (m *Master) drops() bool   { return m.Spec.GetLastBatch() == pb.LastBatch_DROP }
func (m *Master) inLanes() bool { return m.Spec.GetOrder() == pb.Order_DETERMINISTIC }
func (m *Master) counted() bool { return m.drops() || m.inLanes() }

// Steps is how far the rank said that its training loop is, where ranks count steps.
func (r *Member) Steps() *pb.RankSteps { return r.steps }

// rowsPerLane of a step.
func (m *Master) rowsPerLane() uint64 { return uint64(m.global()) / uint64(m.Spec.GetLanes()) }

// global is the rows of a step over all ranks.
func (m *Master) global() int64 {
	if n := m.Spec.GetGlobalBatchSize(); n > 0 {
		return n
	}
	return m.Spec.GetBatchSize() * int64(m.World)
}

// Layout is an epoch's.
func (m *Master) Layout(epoch uint32) *Layout {
	return NewLayout(m.Data, epoch, int(m.Spec.GetLanes()))
}

// blocks of an epoch.
func (m *Master) blocks() int {
	return (len(m.Data.Shards) + m.Data.BlockShards - 1) / m.Data.BlockShards
}

// planned is how many blocks of an epoch are.
func (m *Master) planned(epoch uint32) int {
	return max(0, min(m.Planned-int(epoch)*m.blocks(), m.blocks()))
}

// countedSteps is what ranks are told of an epoch.
func (m *Master) countedSteps(epoch uint32) (steps uint64, final bool) {
	if m.inLanes() {
		return m.Layout(epoch).Steps(m.planned(epoch), m.rowsPerLane(), m.drops())
	}
	rows, handed, final := m.rowsToCome(epoch)
	return handed + uint64(rows)/uint64(m.global()), final
}

// rowsToCome are those of an epoch that were granted, or are returned, behind the steps that this master began with.
func (m *Master) rowsToCome(epoch uint32) (rows int, handed uint64, final bool) {
	granted := min(max(0, m.Next-int(epoch)*len(m.Data.Shards)), len(m.Data.Shards))
	set := position.Set{{From: m.Data.Start(epoch, 0), To: m.Data.Start(epoch, granted)}}
	if m.begun != nil && epoch == m.begun.GetEpoch() {
		set, handed = set.Subtract(m.base), m.begun.GetHanded()
	}
	m.Data.In(set, func(_ Row, lo, hi int) { rows += hi - lo })
	return rows, handed, granted == len(m.Data.Shards)
}

// dropped are the rows of an epoch, all of which is planned, that nobody gets.
func (m *Master) dropped(epoch uint32) uint64 {
	rows := m.Data.Rows()
	if !m.inLanes() {
		rows, _, _ = m.rowsToCome(epoch)
	}
	return uint64(rows) % uint64(m.global())
}

// reportCounted takes over where a rank's training loop is.
func (m *Master) reportCounted(req *pb.SyncRequest, r *Member) {
	n := req.GetSteps()
	steps, _ := m.countedSteps(n.GetEpoch())
	if m.begun != nil && n.GetEpoch() == m.begun.GetEpoch() {
		steps = max(steps, m.begun.GetHanded())
	}
	switch {
	case n == nil || n.GetReady() != 0 || n.GetEpoch() > m.Closed+2 || n.GetEpoch() == m.Data.Epochs &&
		n.GetHanded() > 0,
		n.GetEpoch() < m.Data.Epochs && n.GetHanded() > steps:
		m.problems = append(m.problems, fmt.Sprintf("reported the steps %v, with %d told and %d epochs closed",
			n, steps, m.Closed))
	case m.inLanes() && len(req.GetConsumed()) > 0:
		m.problems = append(m.problems, "consumed intervals are reported in order deterministic")
	}
	if n.GetEpoch() > r.steps.GetEpoch() || n.GetEpoch() == r.steps.GetEpoch() && n.GetHanded() >= r.steps.GetHanded() {
		r.steps = n
	}
}

// closeCounted closes epochs that all ranks have ended.
func (m *Master) closeCounted() {
	for ; m.Closed < m.Data.Epochs; m.Closed++ {
		steps, final := m.countedSteps(m.Closed)
		for rank := range m.World {
			r := m.Ranks[rank]
			if r == nil || r.steps.GetEpoch() <= m.Closed && (!final || r.steps.GetEpoch() < m.Closed ||
				r.steps.GetHanded() < steps) {
				return
			}
		}
		m.pass()
		m.version++
		over := position.Set{{To: position.Position{Epoch: m.Closed + 1}}}
		m.Returned, m.Release = m.Returned.Subtract(over), m.Release.Subtract(over)
		for _, r := range m.Ranks {
			r.Held = r.Held.Subtract(over)
		}
	}
}

// planLanes plans the next block, not further than one epoch ahead.
func (m *Master) planLanes() {
	if m.Frozen || m.Planned >= int(min(m.Closed+2, m.Data.Epochs))*m.blocks() {
		return
	}
	m.Planned++
	for _, r := range m.Ranks {
		r.revision++
	}
}

// laneGrants are those of a rank, behind the steps that it reported.
func (m *Master) laneGrants(rank uint32, r *Member) (grants []*pb.Grant) {
	n := m.Spec.GetLanes() / m.World
	for epoch := r.steps.GetEpoch(); epoch < m.Data.Epochs; epoch++ {
		handed := uint64(0)
		if epoch == r.steps.GetEpoch() {
			handed = r.steps.GetHanded()
		}
		l := m.Layout(epoch)
		for block := m.firstBlock(epoch); block < m.planned(epoch); block++ {
			for _, p := range l.Blocks[block] {
				p = l.behind(p, handed*m.rowsPerLane())
				if p.Rows == 0 || p.Lane/n != rank {
					continue
				}
				grants = append(grants, &pb.Grant{
					Interval: p.Proto(), Ticket: m.ticket(p.From), Rows: p.Rows, Lane: p.Lane, First: p.First,
				})
			}
		}
	}
	return grants
}

// firstBlock is where the planning of an epoch began.
func (m *Master) firstBlock(epoch uint32) int {
	if epoch == m.start.GetEpoch() {
		return int(m.start.GetBlock())
	}
	return 0
}

// laneStarts are those of blocks with rows behind a rank's steps.
func (m *Master) laneStarts(at *pb.RankSteps) (starts []*pb.LaneStart) {
	for epoch := at.GetEpoch(); epoch < m.Data.Epochs; epoch++ {
		l := m.Layout(epoch)
		for block := m.firstBlock(epoch); block < m.planned(epoch); block++ {
			behind := epoch > at.GetEpoch()
			for _, n := range l.Starts[block+1] {
				behind = behind || n > at.GetHanded()*m.rowsPerLane()
			}
			if behind {
				starts = append(starts, l.start(block))
			}
		}
	}
	return starts
}

// joinStarts are those of a JoinReply.
func (m *Master) joinStarts(at *pb.RankSteps) []*pb.LaneStart {
	if !m.inLanes() {
		return nil
	}
	return m.laneStarts(at)
}

// restoreLanes begins anew at the step that the ranks' states stepsKnown, all the same.
func (m *Master) restoreLanes(states []*pb.State) {
	for i, st := range states {
		if i > 0 && (st.GetClosedEpochs() != m.begun.GetEpoch() || st.GetHanded() != m.begun.GetHanded()) ||
			st.GetGlobalBatch() != uint64(m.global()) || len(st.GetBase())+len(st.GetConsumed()) > 0 {
			m.problems = append(m.problems, "restored from the state "+st.String())
		}
		m.begun = &pb.RankSteps{Epoch: st.GetClosedEpochs(), Handed: st.GetHanded()}
		m.start = st.GetStart()
	}
	m.Closed = m.begun.GetEpoch()
	m.Planned = int(m.Closed)*m.blocks() + m.firstBlock(m.Closed)
	for _, r := range m.Ranks {
		r.steps = m.begun
	}
}

// capped is the part of what could be granted that a rank needs.
func (m *Master) capped(r *Member, got position.Set) position.Set {
	if !m.drops() {
		return got
	}
	need, final := m.need(r)
	if !final {
		return got
	}
	return got.Subtract(m.tail(m.open(got), max(0, need-m.rows(r.Held))))
}

// rows of the open epoch in a set.
func (m *Master) rows(set position.Set) (n int) {
	m.Data.In(m.open(set), func(_ Row, lo, hi int) { n += hi - lo })
	return n
}

// open is the part of a set in the open epoch.
func (m *Master) open(set position.Set) position.Set {
	return set.Intersect(
		position.Set{{From: position.Position{Epoch: m.Closed}, To: position.Position{Epoch: m.Closed + 1}}})
}

// recall asks ranks for what they do not need, where nothing is free.
func (m *Master) recall() {
	if m.drops() && !m.inLanes() && m.rows(m.Returned) == 0 {
		for _, r := range m.Ranks {
			m.Release = m.Release.Union(m.surplus(r))
		}
	}
}

// surplus is what a rank holds of the open epoch beyond the steps that it has still to make.
func (m *Master) surplus(r *Member) position.Set {
	need, final := m.need(r)
	if !final {
		return nil
	}
	return m.tail(m.open(r.Held), need)
}

// need is how many rows of the open epoch a rank has still to get.
func (m *Master) need(r *Member) (rows int, final bool) {
	steps, final := m.countedSteps(m.Closed)
	switch {
	case r.steps.GetEpoch() > m.Closed || r.steps.GetHanded() > steps:
		return 0, final
	case r.steps.GetEpoch() == m.Closed:
		steps -= r.steps.GetHanded()
	}
	return int(steps) * int(m.global()) / int(m.World), final
}

// tail is the rows of a set behind its first ones.
func (m *Master) tail(set position.Set, rows int) (tail position.Set) {
	m.Data.In(set, func(r Row, lo, hi int) {
		n := min(rows, hi-lo)
		if rows -= n; n == hi-lo {
			return
		}
		from := m.Data.Start(r.Epoch, r.Shard)
		from.Window, from.K = uint32(r.Window), uint64(lo+n)
		to := from
		to.K = uint64(hi)
		tail = tail.Union(position.Set{{From: from, To: to}})
	})
	return tail
}
