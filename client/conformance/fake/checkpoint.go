package fake

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
)

// retryAhead is how many steps later a checkpoint is taken whose step a rank missed.
const retryAhead = 4

// Order asks all ranks for their States behind a step, as the batches of their first start count them. It is called in
// Change.
func (m *Master) Order(name string, step uint64) {
	m.order = &pb.CheckpointOrder{Id: m.order.GetId() + 1, Name: name, Step: step, Batches: step}
	m.parted = make(map[uint32]*pb.State)
}

// Ordered is the step that is asked for, or was last. It is called in Look.
func (m *Master) Ordered() uint64 { return m.order.GetStep() }

// Part is what a rank brought for it. It is called in Look.
func (m *Master) Part(rank uint32) *pb.State { return m.parted[rank] }

// orderFor is what a rank is asked for.
func (m *Master) orderFor(rank uint32) *pb.CheckpointOrder {
	if m.parted[rank] != nil {
		return nil
	}
	return m.order
}

// takePart takes in what a rank answers; answers to earlier orders do not count.
func (m *Master) takePart(req *pb.SyncRequest) {
	p, handed := req.GetCheckpoint(), uint64(req.GetCounters().GetBatches())
	if p == nil || p.GetId() != m.order.GetId() {
		return
	}
	if p.GetMissed() == (p.GetState() != nil) || handed < m.order.GetBatches() {
		m.problems = append(m.problems, fmt.Sprintf("after %d batches, the order %v is answered with %v",
			handed, m.order, p))
	}
	if p.GetMissed() {
		m.Order(m.order.GetName(), m.order.GetStep()+retryAhead)
		return
	}
	m.parted[req.GetRank()] = p.GetState()
}
