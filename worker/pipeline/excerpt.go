package pipeline

import (
	"context"

	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// fewOf is the part of a window's rows up to which an excerpt of them pays, whatever the steps:
// docs/performance/findings.md has figures.
const fewOf = 4

// few reports whether so few of a window's rows are chosen that the steps had better run on these alone.
func (c *computer) few(w *tensor.Window) bool {
	return w.Order != nil && c.chain.Computes() && len(w.Order) <= w.Rows/fewOf
}

// excerpt leaves only the chosen rows in a window's sources, in the order of output. Sources that nobody reads any more
// are left empty.
func (c *computer) excerpt(ctx context.Context, w *tensor.Window) error {
	scratch := &c.windows
	scratch.excerpts = vector.Grow(scratch.excerpts, len(w.Slots))
	scratch.excerpted = 0
	for i, v := range w.Slots {
		if c.reads[i] {
			scratch.excerpted += vector.SizeOf(v, w.Order)
		}
	}
	scratch.trim()
	if err := c.quota.raise(ctx, &c.holds.results, scratch.excerpted, 1); err != nil {
		return err
	}
	sources := scratch.sources[:0]
	for i, v := range w.Slots {
		if c.reads[i] {
			sources = append(sources, scratch.excerpts[i].Take(v, w.Order))
		} else {
			sources = append(sources, &vector.Vector{Type: v.Type, Rows: len(w.Order)})
		}
	}
	scratch.sources, w.Slots = sources, sources
	w.Rows, w.Chosen, w.Order = len(w.Order), w.Order, nil
	return nil
}

// trim has memory of excerpts not be used again that is far more than those of a window ever took together: it grows to
// what each source had at most, and these may have been in different windows.
func (w *windowScratch) trim() {
	w.peak = max(w.peak, w.excerpted)
	held := int64(0)
	for i := range w.excerpts {
		held += w.excerpts[i].Held()
	}
	if held > 2*w.peak+int64(len(w.excerpts))*minExcerpt {
		clear(w.excerpts)
	}
}

// minExcerpt is how many bytes the excerpt of a source may have however little it holds: slices are made longer than
// they need be.
const minExcerpt = 2 << 10

// transformExcerpt runs the steps on the chosen rows alone.
func (c *computer) transformExcerpt(ctx context.Context, w *tensor.Window) error {
	stats := c.stats
	err := stats.timed(&stats.transform, func() error {
		c.ops.begin()
		defer c.ops.end(c.ops.filter)
		return c.excerpt(ctx, w)
	})
	if err != nil {
		return err
	}
	return c.transform(ctx, w)
}
