package pipeline

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// expect takes what the steps are going to make of sources that are larger than was estimated.
func (s *Stream) expect(ctx context.Context, w *tensor.Window) error {
	sizes := s.windows.sizes[:0]
	for i, v := range w.Slots {
		z := size{}
		if s.reads[i] {
			z = size{int64(v.Len()), bytesOf(v)}
		}
		sizes = append(sizes, z)
	}
	s.windows.sizes = sizes
	if !s.expects.see(sizes, int64(w.Rows)) {
		return nil
	}
	s.expects.results = max(s.expects.results, resultBytes(s.program, s.chain, s.expects.sources, s.expects.rows))
	return s.quota.raise(ctx, &s.holds.results, s.expects.results, 1)
}

// correct takes what the results of a window's steps hold beyond what was expected. Those of steps that were taken early are the sources.
// What steps asked for is left out of what is expected of the next window: they will ask again.
func (s *Stream) correct(ctx context.Context, results []*vector.Vector) error {
	bytes := s.windows.excerpted
	for _, v := range results {
		if !v.Early {
			bytes += bytesOf(v)
		}
	}
	s.expects.results = max(s.expects.results, bytes-s.unexpected)
	return s.quota.raise(ctx, &s.holds.results, bytes, 1)
}

// makeRoom takes what a batch is going to have for a piece beyond what it has, and beyond what is usual. What is held for compressed
// batches serves where there are none.
func (s *Stream) makeRoom(ctx context.Context, b *tensor.Batch, p tensor.Piece) error {
	s.extra[b] = max(0, s.builder.Needs(b, p)-s.holds.batch)
	err := s.quota.raise(ctx, &s.holds.longer, s.beyond()-s.spare(), 1)
	if err == nil && s.compressed {
		err = s.quota.raise(ctx, &s.holds.packed, p.Bytes, HandedOver)
	}
	if err != nil {
		return fmt.Errorf("a batch of %d bytes: %w", p.Bytes, err)
	}
	return nil
}

// spare is what is held for compressed batches, and for nothing.
func (s *Stream) spare() int64 {
	if s.compressed {
		return 0
	}
	return HandedOver * s.holds.packed
}

func bytesOf(v *vector.Vector) int64 {
	if v == nil {
		return 0
	}
	words := cap(v.Valid) + cap(v.ElemValid) + cap(v.I64) + cap(v.F64)
	halves := cap(v.Offsets) + cap(v.I32) + cap(v.U32) + cap(v.F32) + cap(v.Ends) + cap(v.Codes)
	return 8*int64(words) + 4*int64(halves) + int64(cap(v.Bool)+cap(v.Data))
}
