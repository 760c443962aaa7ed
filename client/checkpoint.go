package client

import "github.com/penstock-ml/penstock/api/pb"

// Checkpoint is a named checkpoint of the whole job, which the master has taken, or is about to take, behind a batch.
type Checkpoint struct {
	Name string
	// Step counts the batches of each rank, on from the step of the checkpoint that the session was restored to, if it was.
	Step uint64
}

// checkpointing is this rank's part in a checkpoint that the master orders; nothing of it lasts.
type checkpointing struct {
	order  *pb.CheckpointOrder // nil: none
	taken  *snapshot           // behind the batch that the order names
	missed bool                // that batch had been handed over when the order came
}

// obey takes over what a reply orders. batches were handed over.
func (c *checkpointing) obey(o *pb.CheckpointOrder, batches uint64) {
	switch {
	case o == nil:
		*c = checkpointing{}
	case o.GetId() != c.order.GetId():
		*c = checkpointing{order: o, missed: batches >= o.GetBatches()}
	}
}

// after takes the state behind a batch, if it is ordered, and returns the checkpoint that it belongs to.
func (c *checkpointing) after(at snapshot, batches uint64) *Checkpoint {
	if c.order == nil || c.missed || c.taken != nil || batches != c.order.GetBatches() {
		return nil
	}
	c.taken = &at
	return &Checkpoint{Name: c.order.GetName(), Step: c.order.GetStep()}
}

// part is what a Sync tells of it.
func (s *Session) part() *pb.CheckpointPart {
	switch c := &s.checkpointing; {
	case c.taken != nil:
		return &pb.CheckpointPart{Id: c.order.GetId(), State: s.state(*c.taken)}
	case c.missed:
		return &pb.CheckpointPart{Id: c.order.GetId(), Missed: true}
	}
	return nil
}

// RestoredFrom is the named checkpoint that `penstock session restore` put the session back to, or nil. A training loop that loads
// the model that it saved there goes on in step with the data.
func (s *Session) RestoredFrom() *Checkpoint {
	if f := s.session.GetRestoredFrom(); f != nil {
		return &Checkpoint{Name: f.GetName(), Step: f.GetStep()}
	}
	return nil
}
