package pipeline

import (
	"context"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Rows that a table has deleted of a file are as those that a filter does not choose. It is known of them before a
// window is decoded.

// exclude finds out which rows of the stream's file its table has deleted, and takes memory for it.
func (s *Stream) exclude(ctx context.Context, store storage.Storage) error {
	if len(s.ticket.GetFile().GetExcluded()) == 0 {
		return nil
	}
	return s.stats.timed(&s.stats.storage, func() (err error) {
		s.excluded, err = s.pipeline.excluded.Of(ctx, store, s.program.GetStorage(), s.ticket.GetFile(),
			format.Rows(s.file), room{ctx, s.quota})
		return err
	})
}

// room is what a stream may hold of excluded rows.
type room struct {
	ctx context.Context //nolint:containedctx // of the stream that is opened
	*quota
}

// Take implements excluded.Room.
func (r room) Take(n int64) error {
	_, err := r.more(r.ctx, n, n)
	return err
}

// notExcluded chooses the rows of a window that are not excluded, and returns how many they are.
func (c *computer) notExcluded(w *tensor.Window) int {
	if len(c.excluded) == 0 {
		return w.Rows
	}
	c.windows.chosen = vector.Grow(c.windows.chosen, vector.Words(w.Rows))
	return c.excluded.Choose(c.windows.chosen, w.FirstRow, w.Rows)
}
