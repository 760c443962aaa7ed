package pipeline

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// expect takes what the steps are going to make of sources that are larger than was estimated.
func (c *computer) expect(ctx context.Context, w *tensor.Window) error {
	sizes := c.windows.sizes[:0]
	for i, v := range w.Slots {
		z := format.Size{}
		if c.reads[i] {
			z = format.Size{Values: int64(v.Len()), Bytes: bytesOf(v)}
		}
		sizes = append(sizes, z)
	}
	c.windows.sizes = sizes
	if !c.expects.see(sizes, int64(w.Rows)) {
		return nil
	}
	c.expects.results = max(c.expects.results, resultBytes(c.program, c.chain, c.expects.sources, c.expects.rows))
	return c.quota.raise(ctx, &c.holds.results, c.expects.results, 1)
}

// correct takes what the results of a window's steps hold beyond what was expected. Those of steps that were taken
// early are the sources, and what functions make is part of what the chain keeps. What steps asked for is left out of
// what is expected of the next window: they will ask again.
func (c *computer) correct(ctx context.Context) error {
	bytes := c.windows.excerpted
	for v := range c.chain.Results() {
		if !v.Early {
			bytes += bytesOf(v)
		}
	}
	c.expects.results = max(c.expects.results, bytes-c.unexpected)
	return c.quota.raise(ctx, &c.holds.results, bytes, 1)
}

// makeRoom takes what a batch is going to have for a piece beyond what it has, and beyond what is usual. What is held
// for compressed batches serves where there are none.
func (c *computer) makeRoom(ctx context.Context, b *tensor.Batch, p tensor.Piece) error {
	c.extra[b] = max(0, c.builder.Needs(b, p)-c.holds.batch)
	err := c.quota.raise(ctx, &c.holds.longer, c.beyond()-c.spare(), 1)
	if err == nil && c.compressed {
		err = c.quota.raise(ctx, &c.holds.packed, p.Bytes, HandedOver)
	}
	if err != nil {
		return fmt.Errorf("a batch of %d bytes: %w", p.Bytes, err)
	}
	return nil
}

// spare is what is held for compressed batches, and for nothing.
func (c *computer) spare() int64 {
	if c.compressed {
		return 0
	}
	return HandedOver * c.holds.packed
}

func bytesOf(v *vector.Vector) int64 {
	if v == nil {
		return 0
	}
	words := cap(v.Valid) + cap(v.ElemValid) + cap(v.I64) + cap(v.F64)
	halves := cap(v.Offsets) + cap(v.I32) + cap(v.U32) + cap(v.F32) + cap(v.Ends) + cap(v.Codes)
	for _, level := range v.Nested {
		words, halves = words+cap(level.Valid), halves+cap(level.Offsets)
	}
	return 8*int64(words) + 4*int64(halves) + int64(cap(v.Bool)+cap(v.Data)+cap(v.Small))
}
