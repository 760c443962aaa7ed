package fake

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
)

// Where outputs are counted (last_batch drop, order deterministic), a master knows an epoch's steps before it is read.

func (m *Master) drops() bool   { return m.Spec.GetLastBatch() == pb.LastBatch_DROP }
func (m *Master) inLanes() bool { return m.Spec.GetOrder() == pb.Order_DETERMINISTIC }
func (m *Master) counted() bool { return spec.Counted(m.Spec) }

// Steps is how far the rank said that its training loop is, where ranks count steps.
func (r *Member) Steps() *pb.RankSteps { return r.steps }

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

// countedSteps is what ranks are told of an epoch.
func (m *Master) countedSteps(epoch uint32) (steps uint64, final bool) {
	if m.inLanes() {
		return m.Layout(epoch).Steps(lanes{m}.planned(epoch), lanes{m}.rowsPerLane(), m.drops())
	}
	rows, handed, final := drop{m}.rowsToCome(epoch)
	return handed + uint64(rows)/uint64(m.global()), final
}

// dropped are the rows of an epoch, all of which is planned, that nobody gets.
func (m *Master) dropped(epoch uint32) uint64 {
	rows := m.Data.Rows()
	if !m.inLanes() {
		rows, _, _ = drop{m}.rowsToCome(epoch)
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
