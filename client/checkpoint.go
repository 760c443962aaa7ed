package client

import "github.com/penstock-ml/penstock/api/pb"

// Checkpoint is a named checkpoint of the whole job, which the master has taken, or is about to take, behind a batch.
type Checkpoint struct {
	Name string
	// Step counts the batches of each rank, and in order deterministic those steps in which a rank has no rows, on from the step of the
	// checkpoint that the session was restored to, if it was.
	Step uint64
}

// checkpointing is this rank's part in a checkpoint that the master orders; nothing of it lasts.
type checkpointing struct {
	order  *pb.CheckpointOrder // nil: none
	taken  *snapshot           // behind the batch that the order names
	missed bool                // that batch had been handed over when the order came, or has no rows
}

// obey takes over what a reply orders. So many steps were made.
func (c *checkpointing) obey(o *pb.CheckpointOrder, steps uint64) {
	switch {
	case o == nil:
		*c = checkpointing{}
	case o.GetId() != c.order.GetId():
		*c = checkpointing{order: o, missed: steps >= o.GetBatches()}
	}
}

// due reports whether the state is ordered behind a step.
func (c *checkpointing) due(step uint64) bool {
	return c.order != nil && !c.missed && c.taken == nil && step == c.order.GetBatches()
}

// after takes the state behind a batch, if it is ordered, and returns the checkpoint that it belongs to.
func (c *checkpointing) after(at snapshot, step uint64) *Checkpoint {
	if !c.due(step) {
		return nil
	}
	c.taken = &at
	return &Checkpoint{Name: c.order.GetName(), Step: c.order.GetStep()}
}

// pass notes a step without a batch. A training loop that gets none cannot be told of a checkpoint.
func (c *checkpointing) pass(step uint64) { c.missed = c.missed || c.due(step) }

// stepsMade is how many steps this rank made: its batches, and the steps in which it had no rows. s.mu must be held.
func (s *Session) stepsMade() uint64 { return uint64(s.stats.Batches) + s.ledger.blank }

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
	if f := s.session.GetRestoredFrom(); f.GetName() != "" {
		return &Checkpoint{Name: f.GetName(), Step: f.GetStep()}
	}
	return nil
}
