package fake

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
)

// retryAhead is how many steps later a checkpoint is taken whose step a rank missed.
const retryAhead = 4

// checkpoints are those that the master asks for.
type checkpoints struct {
	order  *pb.CheckpointOrder  // nil: none yet
	parted map[uint32]*pb.State // what ranks brought for it
}

// Order asks all ranks for their States after a step, as the batches of their first start count them. It is called in
// Change.
func (c *checkpoints) Order(name string, step uint64) {
	c.order = &pb.CheckpointOrder{Id: c.order.GetId() + 1, Name: name, Step: step, Batches: step}
	c.parted = make(map[uint32]*pb.State)
}

// Ordered is the step that is asked for, or was last. It is called in Look.
func (c *checkpoints) Ordered() uint64 { return c.order.GetStep() }

// Part is what a rank brought for it. It is called in Look.
func (c *checkpoints) Part(rank uint32) *pb.State { return c.parted[rank] }

// orderFor is what a rank is asked for.
func (c *checkpoints) orderFor(rank uint32) *pb.CheckpointOrder {
	if c.parted[rank] != nil {
		return nil
	}
	return c.order
}

// takePart takes in what a rank answers; answers to earlier orders do not count. It returns what is wrong with it.
func (c *checkpoints) takePart(req *pb.SyncRequest) (problems []string) {
	p, handed := req.GetCheckpoint(), uint64(req.GetCounters().GetBatches())
	if p == nil || p.GetId() != c.order.GetId() {
		return nil
	}
	if p.GetMissed() == (p.GetState() != nil) || handed < c.order.GetBatches() {
		problems = append(problems, fmt.Sprintf("after %d batches, the order %v is answered with %v",
			handed, c.order, p))
	}
	if p.GetMissed() {
		c.Order(c.order.GetName(), c.order.GetStep()+retryAhead)
		return problems
	}
	c.parted[req.GetRank()] = p.GetState()
	return problems
}
