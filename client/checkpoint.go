package client

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Checkpoint is a named checkpoint of the whole job, which the master has taken, or is about to take, after a batch.
type Checkpoint struct {
	Name string
	// Step counts the batches of each rank, on from the step of the checkpoint that the session was restored to, if it
	// was. Steps without a batch count, too: those in which a rank has no rows in order deterministic, and padding that
	// its loop left out at the end of an epoch.
	Step uint64
}

// checkpointing is this rank's part in a checkpoint that the master orders; nothing of it lasts.
type checkpointing struct {
	order  *pb.CheckpointOrder // nil: none
	taken  *snapshot           // after the batch that the order names
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

// due reports whether the state is ordered after a step.
func (c *checkpointing) due(step uint64) bool {
	return c.order != nil && !c.missed && c.taken == nil && step == c.order.GetBatches()
}

// after takes the state after a batch, if it is ordered, and returns the checkpoint that it belongs to.
func (c *checkpointing) after(at snapshot, step uint64) *Checkpoint {
	if !c.due(step) {
		return nil
	}
	c.taken = &at
	return &Checkpoint{Name: c.order.GetName(), Step: c.order.GetStep()}
}

// pass notes a step without a batch. A training loop that gets none cannot be given a checkpoint.
func (c *checkpointing) pass(step uint64) { c.missed = c.missed || c.due(step) }

// stepsMade is how many steps this rank made: its batches, and the steps in which it had no rows. shared.mu must be
// held.
func (h *handover) stepsMade() uint64 { return uint64(h.handed.batches) + h.shared.ledger.blank }

// obey takes over what a reply orders. shared.mu must be held.
func (h *handover) obey(o *pb.CheckpointOrder) {
	if h.checkpointing.obey(o, h.stepsMade()); h.checkpointing.missed {
		signal(h.shared.wake)
	}
}

// part is what a Sync says of it. shared.mu must be held.
func (h *handover) part() *pb.CheckpointPart {
	switch c := &h.checkpointing; {
	case c.taken != nil:
		return &pb.CheckpointPart{Id: c.order.GetId(), State: h.terms.state(*c.taken)}
	case c.missed:
		return &pb.CheckpointPart{Id: c.order.GetId(), Missed: true}
	}
	return nil
}

// snapshot is what State says of a moment. Its sets are never changed.
type snapshot struct {
	ended    uint32
	closed   uint32 // epochs, by the master
	handed   uint64 // batches of the epoch after those, if ranks count them
	rows     int64  // that this rank handed over in this generation
	base     base
	consumed position.Set
	indexes  []*pb.BlockIndexes
	skips    position.Tally // beside consumed
	// Of order deterministic: the block to begin with, and rows of a step.
	start       *pb.LaneStart
	globalBatch uint64
	// Of ranks that pad: the master remembers their steps.
	remembers bool
}

// snapshot is the present state. shared.mu must be held.
func (h *handover) snapshot() snapshot {
	l := &h.shared.ledger
	at := snapshot{
		ended: l.ended, closed: l.epoch, handed: l.handed, rows: h.terms.joined.GetEarlier().GetRows() + h.handed.rows,
		base: l.base, consumed: l.consumed, indexes: l.indexes, skips: l.skips.consumed, remembers: l.pacing.pads(),
	}
	if l.ended > l.epoch { // the master is still to hear of it
		at.consumed, at.base.consumed = from(at.consumed, at.ended), from(at.base.consumed, at.ended)
		at.skips, at.base.skips = at.skips.From(at.ended), at.base.skips.From(at.ended)
	}
	l.order().snapshot(&at)
	return at
}
