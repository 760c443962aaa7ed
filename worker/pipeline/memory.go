package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// more takes memory beyond what Open took: the least beyond the stream's share, else as much as there is, up to wish. For the least it
// waits as Open does.
func (s *Stream) more(ctx context.Context, least, wish int64) (int64, error) {
	if s.account.Held()+wish > s.pipeline.limits().share() {
		wish = least
	}
	if s.account.Try(wish) {
		return wish, nil
	}
	if least <= 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.pipeline.cfg.Patience, ErrBusy)
	defer cancel()
	err := s.account.Grow(ctx, least)
	if errors.Is(err, ErrLimit) && s.chunks.Shrink() {
		err = s.account.Grow(ctx, least)
	}
	ahead := s.chunks.Ahead()
	if errors.Is(err, ErrLimit) && !s.abreast && ahead > 0 && s.account.Held()-ahead+least <= s.pipeline.memory.Max() {
		s.session.abreast.Store(shardOf(s.ticket), true)
		err = fmt.Errorf("%w: what was read ahead is in the way; the shard's next stream goes on without: %w", ErrBusy, err)
	}
	return least, err
}

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
	return s.raise(ctx, &s.holds.results, s.expects.results, 1)
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
	return s.raise(ctx, &s.holds.results, bytes, 1)
}

// makeRoom takes what a batch is going to have for a piece beyond what it has, and beyond what is usual. What is held for compressed
// batches serves where there are none.
func (s *Stream) makeRoom(ctx context.Context, b *tensor.Batch, p tensor.Piece) error {
	s.extra[b] = max(0, s.builder.Needs(b, p)-s.holds.batch)
	err := s.raise(ctx, &s.holds.longer, s.beyond()-s.spare(), 1)
	if err == nil && s.compressed {
		err = s.raise(ctx, &s.holds.packed, p.Bytes, HandedOver)
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

// raise takes what something is going to hold beyond what it held, in so many copies.
func (s *Stream) raise(ctx context.Context, held *int64, bytes, copies int64) error {
	if n := copies * (bytes - *held); n > 0 {
		if _, err := s.more(ctx, n, n); err != nil {
			return err
		}
		*held = bytes
	}
	return nil
}

func bytesOf(v *vector.Vector) int64 {
	if v == nil {
		return 0
	}
	words := cap(v.Valid) + cap(v.ElemValid) + cap(v.I64) + cap(v.F64)
	halves := cap(v.Offsets) + cap(v.I32) + cap(v.U32) + cap(v.F32) + cap(v.Ends) + cap(v.Codes)
	return 8*int64(words) + 4*int64(halves) + int64(cap(v.Bool)+cap(v.Data))
}
