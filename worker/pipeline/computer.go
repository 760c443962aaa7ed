package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// computer makes batches of extents: it decodes them window by window, chooses rows, transforms them, and cuts them.
// It belongs to the goroutine that calls run.
type computer struct {
	job
	*engine
	ops        opTimes
	holds      holding
	expects    expected
	batch      int64 // about the bytes of one
	compressed bool  // batches are, before they are sent
	pictures   images.Room
	unexpected int64  // bytes of a window's results that the sources did not let expect
	sent       Cursor // where the trainer's cursor is, once it has all that was handed on
}

// ready has an engine work for this stream, with the memory that it holds.
func (c *computer) ready() {
	c.ops = newOpTimes(c.stats, c.chain)
	c.chain.Watch(c.ops.ran)
	c.decoder.Memory().Allow(c.holds.pages + c.holds.sources)
}

// close gives up the engine, if there is one.
func (c *computer) close() {
	if c != nil {
		c.giveUp()
		c.engine = nil
	}
}

// run takes the fetched extents through decoding, filter, transforms and tensors, window by window.
func (c *computer) run(ctx context.Context, groups iter.Seq2[*extent, error], out chan<- Batch) error {
	at := Cursor{Window: c.layout.start.window, K: c.layout.start.k}
	c.sent = at
	c.askFor(ctx, func() error { return c.sayNothing(ctx, out) })
	err := c.eachWindow(ctx, groups, func(w *tensor.Window) error {
		err := c.cut(ctx, w, at, out)
		if err == nil {
			at = Cursor{Window: at.Window + 1} // else it stays in the window that the error is about
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, c.moveCursor(ctx, at.Window, out))
	}
	return err
}

// askFor has the chain take what memory it needs beyond what is expected, and call wait while functions run.
func (c *computer) askFor(ctx context.Context, wait func() error) {
	c.pictures.Take = func(bytes int64) error {
		return c.quota.raise(ctx, &c.holds.scratch, c.chain.Scratch()+bytes, 1)
	}
	result := func(bytes int64) error {
		c.unexpected += bytes
		return c.quota.raise(ctx, &c.holds.results, c.expects.results+c.unexpected, 1)
	}
	c.chain.Ask(transform.Ask{
		Session: c.ticket.GetSession(), Scratch: c.pictures.Take, Result: result, Wait: wait,
		Skip: func() int { return c.bad.left() },
	})
}

// moveCursor has the trainer's cursor stand at a window, where no row came of the windows before it: if it cannot be
// read, what the trainer makes of the failure begins there.
func (c *computer) moveCursor(ctx context.Context, window uint32, out chan<- Batch) error {
	if c.sent.Window >= window {
		return nil
	}
	b, err := c.builder.Take(ctx)
	if err != nil {
		return err
	}
	c.builder.Empty(b)
	c.sent = Cursor{Window: window}
	return offer(ctx, out, Batch{Batch: b, Meta: &pb.BatchMeta{Window: window - 1, Last: true}})
}

// sayNothing sends a batch without rows that moves no cursor, so that a trainer does not take the stream for dead while
// a function runs. Where one waits already, or the trainer has others yet, there is no need.
func (c *computer) sayNothing(ctx context.Context, out chan<- Batch) error {
	if len(out) > 0 {
		return context.Cause(ctx)
	}
	b, ok := c.builder.TryTake()
	if !ok {
		return context.Cause(ctx)
	}
	c.builder.Empty(b)
	return offer(ctx, out, Batch{Batch: b, Meta: &pb.BatchMeta{Window: c.sent.Window, K: c.sent.K}})
}

// offer hands a batch on, or releases it.
func offer(ctx context.Context, out chan<- Batch, b Batch) error {
	select {
	case out <- b:
		return nil
	case <-ctx.Done():
		b.Release()
		return context.Cause(ctx)
	}
}

// cut sends output rows of a window, from a cursor in it to its end, as batches of about the configured size. What the
// trainer has of a window is made once more where rows may be left out: that shows which are.
func (c *computer) cut(ctx context.Context, w *tensor.Window, at Cursor, out chan<- Batch) error {
	if uint64(w.Len()) < at.K {
		return c.short(w, at)
	}
	from, ended := at.K, false
	if c.bad.most > 0 {
		from = 0
	}
	var step int
	if uint64(w.Len()) > from {
		step = c.builder.RowsFor(w, c.batch)
	}
	for from < uint64(w.Len()) {
		rows := step
		if from < at.K {
			rows = min(rows, int(at.K-from))
		}
		b, p, err := c.piece(ctx, w, int(from), rows)
		if err != nil {
			if err = c.leaveOut(w, err); err != nil {
				return err
			}
			continue
		}
		if from = uint64(p.To); from <= at.K {
			b.Release()
			continue
		}
		meta := &pb.BatchMeta{
			Window: at.Window, K: uint64(p.From), Rows: uint32(p.To - p.From), Last: p.To == w.Len(),
		}
		if err := c.send(ctx, b, meta, out); err != nil {
			return err
		}
		ended = meta.GetLast()
	}
	if uint64(w.Len()) < at.K {
		return c.short(w, at)
	}
	if ended || from == 0 && len(c.bad.rows) == 0 {
		return nil
	}
	return c.end(ctx, Cursor{Window: at.Window, K: from}, out) // there are no more rows, which nothing said yet
}

func (c *computer) short(w *tensor.Window, at Cursor) error {
	return &ShortError{Window: at.Window, Rows: uint64(w.Len()), Taken: at.K, By: c.chain.Barriers()}
}

// piece makes a batch of a window's output rows from one on, of at most so many.
func (c *computer) piece(ctx context.Context, w *tensor.Window, from, rows int) (*tensor.Batch, tensor.Piece, error) {
	limit := c.cfg.MaxBatch
	p := c.builder.Cut(w, from, rows, 2*c.batch)
	if p.Bytes > limit {
		return nil, p, fmt.Errorf("row %d takes %d bytes as tensors; a batch may have %d: "+
			"leave it out by a filter, shorten it by a transform, or lower the length of padded features",
			w.RowOf(w.Source(from)), p.Bytes, limit)
	}
	b, err := c.builder.Take(ctx)
	if err != nil {
		return nil, p, err
	}
	if err := c.makeRoom(ctx, b, p); err != nil {
		b.Release()
		return nil, p, err
	}
	if err := c.stats.timed(&c.stats.tensor, func() error { return c.builder.Build(b, w, p) }); err != nil {
		return nil, p, err
	}
	if err := c.quota.raise(ctx, &c.holds.scratch, c.chain.Scratch(), 1); err != nil {
		b.Release()
		return nil, p, fmt.Errorf("memory to make pictures in: %w", err)
	}
	return b, p, nil
}

// send hands a batch on.
func (c *computer) send(ctx context.Context, b *tensor.Batch, meta *pb.BatchMeta, out chan<- Batch) error {
	c.bad.tell(meta)
	c.stats.badRows.Add(int64(len(meta.GetSkipped())))
	if err := offer(ctx, out, Batch{Batch: b, Meta: meta}); err != nil {
		return err
	}
	c.sent = Cursor{Window: meta.GetWindow(), K: meta.GetK() + uint64(meta.GetRows())}
	if meta.GetLast() {
		c.sent = Cursor{Window: meta.GetWindow() + 1}
	}
	return nil
}

// end says by a batch without rows that a window has none from a cursor on.
func (c *computer) end(ctx context.Context, at Cursor, out chan<- Batch) error {
	b, err := c.builder.Take(ctx)
	if err != nil {
		return err
	}
	c.builder.Empty(b)
	return c.send(ctx, b, &pb.BatchMeta{Window: at.Window, K: at.K, Last: true}, out)
}
