package fake

import (
	"github.com/penstock-ml/penstock/api/pb"
)

// lanes is a master's part in sessions of order deterministic.
type lanes struct{ *Master }

// rowsPerLane of a step.
func (m lanes) rowsPerLane() uint64 { return uint64(m.global()) / uint64(m.Spec.GetLanes()) }

// planned is how many blocks of an epoch are.
func (m lanes) planned(epoch uint32) int {
	return max(0, min(m.Planned-int(epoch)*m.Data.blocks(), m.Data.blocks()))
}

// plan plans the next block, not further than one epoch ahead.
func (m lanes) plan() {
	if m.Frozen || m.Planned >= int(min(m.Closed+2, m.Data.Epochs))*m.Data.blocks() {
		return
	}
	m.Planned++
	for _, r := range m.Ranks {
		r.revision++
	}
}

// grants are those of a rank, after the steps that it reported.
func (m lanes) grants(rank uint32, r *Member) (granted []*pb.Grant) {
	n := m.Spec.GetLanes() / m.World
	for epoch := r.steps.GetEpoch(); epoch < m.Data.Epochs; epoch++ {
		handed := uint64(0)
		if epoch == r.steps.GetEpoch() {
			handed = r.steps.GetHanded()
		}
		l := m.Layout(epoch)
		for block := m.firstBlock(epoch); block < m.planned(epoch); block++ {
			for _, p := range l.Blocks[block] {
				p = l.from(p, handed*m.rowsPerLane())
				if p.Rows == 0 || p.Lane/n != rank {
					continue
				}
				granted = append(granted, &pb.Grant{
					Interval: p.Proto(), Ticket: m.ticket(p.From), Rows: p.Rows, Lane: p.Lane, First: p.First,
				})
			}
		}
	}
	return granted
}

// firstBlock is where the planning of an epoch began.
func (m lanes) firstBlock(epoch uint32) int {
	if epoch == m.start.GetEpoch() {
		return int(m.start.GetBlock())
	}
	return 0
}

// starts are those of blocks with rows after a rank's steps.
func (m lanes) starts(at *pb.RankSteps) (begun []*pb.LaneStart) {
	for epoch := at.GetEpoch(); epoch < m.Data.Epochs; epoch++ {
		l := m.Layout(epoch)
		for block := m.firstBlock(epoch); block < m.planned(epoch); block++ {
			after := epoch > at.GetEpoch()
			for _, n := range l.Starts[block+1] {
				after = after || n > at.GetHanded()*m.rowsPerLane()
			}
			if after {
				begun = append(begun, l.start(block))
			}
		}
	}
	return begun
}

// restore begins anew at the step that the ranks' states name, all the same.
func (m lanes) restore(states []*pb.State) {
	for i, st := range states {
		if i > 0 && (st.GetClosedEpochs() != m.begun.GetEpoch() || st.GetHanded() != m.begun.GetHanded()) ||
			st.GetGlobalBatch() != uint64(m.global()) || len(st.GetBase())+len(st.GetConsumed()) > 0 {
			m.problems = append(m.problems, "restored from the state "+st.String())
		}
		m.begun = &pb.RankSteps{Epoch: st.GetClosedEpochs(), Handed: st.GetHanded()}
		m.start = st.GetStart()
	}
	m.Closed = m.begun.GetEpoch()
	m.Planned = int(m.Closed)*m.Data.blocks() + m.firstBlock(m.Closed)
	for _, r := range m.Ranks {
		r.steps = m.begun
	}
}
