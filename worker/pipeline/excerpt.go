package pipeline

import (
	"context"

	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// fewOf is the part of a window's rows up to which an excerpt of them pays, whatever the steps: bench/README.md has figures.
const fewOf = 4

// few reports whether so few of a window's rows are chosen that the steps had better run on these alone.
func (s *Stream) few(w *tensor.Window) bool {
	return w.Order != nil && s.chain.Computes() && len(w.Order) <= w.Rows/fewOf
}

// excerpt leaves only the chosen rows in a window's sources, in the order of output. Sources that nobody reads any more are left empty.
func (s *Stream) excerpt(ctx context.Context, w *tensor.Window) error {
	scratch := &s.windows
	scratch.excerpts = vector.Grow(scratch.excerpts, len(w.Slots))
	scratch.excerpted = 0
	for i, v := range w.Slots {
		if s.reads[i] {
			scratch.excerpted += vector.SizeOf(v, w.Order)
		}
	}
	scratch.trim()
	if err := s.quota.raise(ctx, &s.holds.results, scratch.excerpted, 1); err != nil {
		return err
	}
	sources := scratch.sources[:0]
	for i, v := range w.Slots {
		if s.reads[i] {
			sources = append(sources, scratch.excerpts[i].Take(v, w.Order))
		} else {
			sources = append(sources, &vector.Vector{Type: v.Type, Rows: len(w.Order)})
		}
	}
	scratch.sources, w.Slots = sources, sources
	w.Rows, w.Chosen, w.Order = len(w.Order), w.Order, nil
	return nil
}

// trim has memory of excerpts not be used again that is far more than those of a window ever took together: it grows to what each source
// had at most, and these may have been in different windows.
func (w *windowScratch) trim() {
	w.most = max(w.most, w.excerpted)
	held := int64(0)
	for i := range w.excerpts {
		held += w.excerpts[i].Held()
	}
	if held > 2*w.most+int64(len(w.excerpts))*leastExcerpt {
		clear(w.excerpts)
	}
}

// leastExcerpt is how many bytes the excerpt of a source may have however little it holds: slices are made longer than they need be.
const leastExcerpt = 2 << 10

// transformExcerpt runs the steps on the chosen rows alone.
func (s *Stream) transformExcerpt(ctx context.Context, w *tensor.Window) error {
	stats := s.stats
	err := stats.timed(&stats.transform, func() error {
		s.ops.begin()
		defer s.ops.end(s.ops.filter)
		return s.excerpt(ctx, w)
	})
	if err != nil {
		return err
	}
	return s.transform(ctx, w)
}
