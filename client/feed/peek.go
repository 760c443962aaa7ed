package feed

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
)

// forgetTimeout bounds how long the deletion of a session may take.
const forgetTimeout = 10 * time.Second

// peek makes a look at the first rows of what is configured: one batch of one epoch, in the dataset's order.
func peek(c *client.Config, rows int64) error {
	if c.SpecText != "" {
		s, err := spec.Parse([]byte(c.SpecText))
		if err != nil {
			return nil //nolint:nilerr // the master says what is wrong, as of any spec
		}
		if path.IsAbs(c.WorkingDir) {
			spec.ResolvePaths(s, c.WorkingDir)
		}
		c.Spec, c.SpecText = s, ""
	}
	s := c.Spec
	if s == nil {
		return errors.New("a look at rows needs a spec, as it is of no session that others opened")
	}
	s.BatchSize, s.GlobalBatchSize, s.LastBatch, s.Epochs, s.Shuffle = rows, 0, pb.LastBatch_UNEVEN, 1, false
	s.Order, s.Lanes, s.OnError = pb.Order_DETERMINISTIC, 1, nil
	if spec.RowsOfSpec(s) != spec.SameRows { // which would be counted for a whole block before the first one comes
		s.Order, s.Lanes = pb.Order_FAST, 0
	}
	c.Rank, c.WorldSize, c.Restore = 0, 1, nil
	return nil
}

// forget deletes a session that nobody comes back to. If that fails, the master forgets it by itself, later.
func (f *feeder) forget(ctx context.Context) {
	if !f.peeks {
		return
	}
	f.peeks = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTimeout)
	defer cancel()
	_ = f.session.Delete(ctx)
}
