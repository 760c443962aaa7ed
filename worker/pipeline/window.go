package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"

	"github.com/penstock-ml/penstock/internal/formats/format"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// windowScratch is memory that each window uses again.
type windowScratch struct {
	chosen []uint64
	left   int // rows that are not excluded
	order  []int32
	places []int32       // of output rows, where these are shuffled behind functions
	kept   []int32       // output rows, where some cannot be laid out
	sizes  []format.Size // of sources

	excerpts  []vector.Excerpt // of sources
	sources   []*vector.Vector // that they make
	excerpted int64            // bytes of them
	peak      int64            // of what was ever excerpted of a window
}

// eachWindow decodes and transforms the windows of the fetched extents, and hands them to f.
func (c *computer) eachWindow(
	ctx context.Context, groups iter.Seq2[*extent, error], f func(*tensor.Window) error,
) error {
	c.decoder.Memory().AskFor(func(need, wish int64) (int64, error) { return c.quota.more(ctx, need, wish) })
	for g, err := range groups {
		if err != nil {
			return err
		}
		if err := c.begin(g); err != nil {
			return err
		}
		for row := g.skip; row < g.GetRows(); row += g.GetWindowRows() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			w, err := c.window(ctx, g, row)
			if err != nil {
				return err
			}
			if err = c.repeats(g, row, w); err == nil {
				err = f(w)
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", c.ticket.GetFile().GetUri(), c.name(g), err)
			}
		}
	}
	return nil
}

// begin has the decoder begin an extent.
func (c *computer) begin(g *extent) error {
	return c.stats.timed(&c.stats.decode, func() error {
		if owner, ok := c.decoder.(formats.Owner); ok {
			owner.OwnChunks(g.apart)
		}
		err := c.decoder.Reset(c.ticket.GetFile().GetUri(), c.layout.file.Bound, int(g.GetIndex()), g.sources)
		if selective, ok := c.decoder.(formats.Selective); ok && err == nil && g.selection != nil {
			err = selective.Select(g.selection)
		}
		if err == nil {
			err = c.constants.Begin(c.layout.file)
		}
		if err != nil {
			return err
		}
		return c.decoder.Skip(int(g.skip))
	})
}

// window decodes one window and transforms it.
func (c *computer) window(ctx context.Context, g *extent, row int64) (*tensor.Window, error) {
	stats := c.stats
	n := int(min(g.GetWindowRows(), g.GetRows()-row))
	w := &tensor.Window{Rows: n, File: c.ticket.GetFile(), FirstRow: g.GetFirstRow() + row}
	c.bad.begin(int(c.ticket.GetSkipRows()), len(g.GetOutputs()) > 0)
	if c.windows.left = c.notExcluded(w); c.windows.left == 0 ||
		g.selection != nil && !g.selection.Wants(row/g.GetWindowRows()) {
		w.Order = []int32{}
		return w, c.decoder.Skip(n)
	}
	err := stats.timed(&stats.decode, func() error {
		own, err := c.decoder.Next(n)
		if err == nil {
			w.Slots, err = c.constants.Join(own, n)
		}
		return err
	})
	if err == nil {
		err = c.faults(w)
	}
	if err != nil {
		return nil, err
	}
	err = stats.timed(&stats.transform, func() (err error) {
		w.Order, err = c.choose(w)
		return err
	})
	if err == nil && w.Len() > 0 {
		err = c.rest(ctx, w)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s, rows %d to %d: %w",
			w.File.GetUri(), c.name(g), w.FirstRow, w.FirstRow+int64(n)-1, err)
	}
	return w, nil
}

// rest decodes what the choice of rows did not need, and transforms the window.
func (c *computer) rest(ctx context.Context, w *tensor.Window) error {
	stats := c.stats
	if late, ok := c.decoder.(formats.Late); ok {
		err := stats.timed(&stats.decode, func() error {
			own, err := late.Rest()
			if err == nil {
				w.Slots, err = c.constants.Join(own, w.Rows)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.withoutBad(w, func() error { return c.steps(ctx, w) })
}

// steps transforms the window.
func (c *computer) steps(ctx context.Context, w *tensor.Window) error {
	c.windows.excerpted = 0
	if c.chain.Calls() {
		return c.calls(ctx, w)
	}
	if c.few(w) || c.bad.failing {
		return c.transformExcerpt(ctx, w)
	}
	err := c.transform(ctx, w)
	if _, ok := errors.AsType[*transform.RowError](err); ok && w.Order != nil {
		return c.transformExcerpt(ctx, w) // what is wrong with a row that is left out is no error
	}
	return err
}

// calls transforms a window whose steps call functions: they get the rows that were chosen, in the file's order, and
// once. Shuffling comes behind.
func (c *computer) calls(ctx context.Context, w *tensor.Window) (err error) {
	if w.Order != nil && len(w.Order) < w.Rows {
		err = c.transformExcerpt(ctx, w)
	} else {
		w.Order = nil
		err = c.transform(ctx, w)
	}
	if err == nil && c.program.GetShuffle() {
		err = c.stats.timed(&c.stats.transform, func() error {
			c.ops.begin()
			w.Order = c.shufflePlaces(w)
			c.ops.end(c.ops.shuffle)
			return nil
		})
	}
	return err
}

// shufflePlaces shuffles rows that are as they were chosen: to the order that they would have if choose did it.
func (c *computer) shufflePlaces(w *tensor.Window) []int32 {
	places := vector.Grow(c.windows.places, w.Rows)
	for i := range places {
		places[i] = int32(i)
	}
	shuffle(places, c.rows(w))
	c.windows.places = places
	return places
}

// transform runs the steps on a window's sources.
func (c *computer) transform(ctx context.Context, w *tensor.Window) error {
	if err := c.expect(ctx, w); err != nil {
		return err
	}
	c.unexpected = c.windows.excerpted
	c.pictures.Most = c.quota.rest() + c.holds.scratch - c.chain.Kept()
	c.chain.Place(c.rows(w), c.pictures)
	stats := c.stats
	err := stats.timed(&stats.transform, func() error {
		c.ops.begin()
		slots, err := c.chain.Run(ctx, w.Slots)
		if err == nil {
			w.Slots = slots
		}
		return err
	})
	if err != nil {
		return err
	}
	if c.chain.Calls() {
		w.Rows, w.Chosen = c.chain.Passed()
	}
	return c.correct(ctx)
}

// choose applies filter, sampling and, unless functions are called, shuffle; nil stands for all rows as they are.
func (c *computer) choose(w *tensor.Window) ([]int32, error) {
	rows := c.rows(w)
	fewer := c.windows.left < w.Rows
	selects := c.filter != nil || c.chain.Selects() || len(c.bad.rows) > 0 || fewer
	if !selects && (!c.program.GetShuffle() || c.chain.Calls()) {
		return nil, nil
	}
	c.ops.begin()
	scratch := &c.windows
	if !fewer { // else they were chosen before anything was decoded
		scratch.chosen = vector.Grow(scratch.chosen, vector.Words(w.Rows))
		for i := range scratch.chosen {
			scratch.chosen[i] = ^uint64(0)
		}
	}
	c.bad.clear(scratch.chosen, w.FirstRow)
	if c.filter != nil {
		window := rowfilter.Window{Vectors: w.Slots, Rows: w.Rows, File: rows.File, First: rows.First}
		if err := c.filter.Select(window, scratch.chosen); err != nil {
			return nil, err
		}
	}
	c.chain.Select(rows, w.Slots, scratch.chosen)
	scratch.order = rowsOf(scratch.chosen, w.Rows, scratch.order)
	if selects {
		c.ops.end(c.ops.filter)
	}
	if c.program.GetShuffle() && !c.chain.Calls() {
		shuffle(scratch.order, rows)
		c.ops.end(c.ops.shuffle)
	}
	return scratch.order, nil
}

// rows says where a window lies, for what is random.
func (c *computer) rows(w *tensor.Window) transform.Rows {
	return transform.Rows{
		Seed:  c.program.GetSeed(),
		Epoch: c.ticket.GetEpoch(),
		File:  transform.Hash(w.File.GetUri()),
		First: w.FirstRow,
		N:     w.Rows,

		Chosen: w.Chosen,
	}
}

// rowsOf lists the set bits below n.
func rowsOf(set []uint64, n int, into []int32) []int32 {
	into = vector.Grow(into, n)[:0]
	for i, word := range set {
		if left := n - i*64; left < 64 {
			word &= 1<<left - 1
		}
		for ; word != 0; word &= word - 1 {
			into = append(into, int32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return into
}

// shuffle permutes rows by Fisher and Yates, seeded by the window's place, so that any worker and any restart
// gives the same order.
func shuffle(order []int32, rows transform.Rows) {
	draws := rows.Draws(shuffleSeed)
	for i := len(order) - 1; i > 0; i-- {
		j, _ := bits.Mul64(draws.At(i), uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
}

// shuffleSeed keeps the shuffle's randomness apart from the ops'.
const shuffleSeed = 0x73687566666c65 // "shuffle"
