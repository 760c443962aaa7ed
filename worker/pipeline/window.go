package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"

	"github.com/penstock-ml/penstock/api/pb"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// windowScratch is memory that each window uses again.
type windowScratch struct {
	chosen []uint64
	order  []int32
	sizes  []size // of sources

	excerpts  []vector.Excerpt // of sources
	sources   []*vector.Vector // that they make
	excerpted int64            // bytes of them
	most      int64            // of what was ever excerpted of a window
}

// compute takes the fetched row groups through decoding, filter, transforms and tensors, window by window.
func (s *Stream) compute(ctx context.Context, groups iter.Seq2[*rowGroup, error], out chan<- Batch) error {
	at := Cursor{Window: s.layout.start.window, K: s.layout.start.k}
	s.sent = at
	s.pictures.Take = func(bytes int64) error {
		return s.quota.raise(ctx, &s.holds.scratch, s.chain.Scratch()+bytes, 1)
	}
	s.chain.Ask(transform.Ask{Scratch: s.pictures.Take, Result: func(bytes int64) error {
		s.unexpected += bytes
		return s.quota.raise(ctx, &s.holds.results, s.expects.results+s.unexpected, 1)
	}})
	err := s.eachWindow(ctx, groups, func(w *tensor.Window) error {
		err := s.cut(ctx, w, at, out)
		if err == nil {
			at = Cursor{Window: at.Window + 1} // else it stays in the window that the error is about
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, s.tell(ctx, at.Window, out))
	}
	return err
}

// tell has the trainer's cursor stand at a window, which cannot be read, where no row came of the windows before it: what
// the trainer makes of the failure begins there.
func (s *Stream) tell(ctx context.Context, window uint32, out chan<- Batch) error {
	if s.sent.Window >= window {
		return nil
	}
	b, err := s.builder.Take(ctx)
	if err != nil {
		return err
	}
	s.builder.Empty(b)
	meta := &pb.BatchMeta{Window: window - 1, Last: true}
	if s.sent.Window == window-1 {
		meta.K = s.sent.K
	}
	return offer(ctx, out, Batch{Batch: b, Meta: meta})
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

// eachWindow decodes and transforms the windows of the fetched row groups, and hands them to f.
func (s *Stream) eachWindow(ctx context.Context, groups iter.Seq2[*rowGroup, error], f func(*tensor.Window) error) error {
	s.decoder.AskFor(func(least, wish int64) (int64, error) { return s.quota.more(ctx, least, wish) })
	for g, err := range groups {
		if err != nil {
			return err
		}
		if err := s.begin(g); err != nil {
			return err
		}
		for row := g.skip; row < g.GetRows(); row += g.GetWindowRows() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			w, err := s.window(ctx, g, row)
			if err != nil {
				return err
			}
			if err := f(w); err != nil {
				return fmt.Errorf("%s row group %d: %w", s.ticket.GetFile().GetUri(), g.GetIndex(), err)
			}
		}
	}
	return nil
}

// begin has the decoder begin a row group.
func (s *Stream) begin(g *rowGroup) error {
	return s.stats.timed(&s.stats.decode, func() error {
		if err := s.layout.file.reset(s.decoder, s.ticket.GetFile().GetUri(), g); err != nil {
			return err
		}
		return s.decoder.Skip(int(g.skip))
	})
}

// window decodes one window and transforms it.
func (s *Stream) window(ctx context.Context, g *rowGroup, row int64) (*tensor.Window, error) {
	stats := s.stats
	n := int(min(g.GetWindowRows(), g.GetRows()-row))
	w := &tensor.Window{Rows: n, File: s.ticket.GetFile(), FirstRow: g.GetFirstRow() + row}
	if g.pruned != nil && !g.pruned.want[row/g.GetWindowRows()] {
		w.Order = []int32{}
		return w, s.decoder.Skip(n)
	}
	err := stats.timed(&stats.decode, func() (err error) {
		w.Slots, err = s.decoder.Next(n)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err = stats.timed(&stats.transform, func() (err error) { w.Order, err = s.choose(w); return err }); err == nil && w.Len() > 0 {
		err = s.rest(ctx, w)
	}
	if err != nil {
		return nil, fmt.Errorf("%s row group %d, rows %d to %d: %w", w.File.GetUri(), g.GetIndex(), w.FirstRow, w.FirstRow+int64(n)-1, err)
	}
	return w, nil
}

// rest decodes what the choice of rows did not need, and transforms the window.
func (s *Stream) rest(ctx context.Context, w *tensor.Window) error {
	stats := s.stats
	err := stats.timed(&stats.decode, func() (err error) {
		w.Slots, err = s.decoder.Rest()
		return err
	})
	if err != nil {
		return err
	}
	s.windows.excerpted = 0
	if s.few(w) {
		return s.transformExcerpt(ctx, w)
	}
	err = s.transform(ctx, w)
	if _, ok := errors.AsType[*transform.RowError](err); ok && w.Order != nil {
		return s.transformExcerpt(ctx, w) // what is wrong with a row that is left out is no error
	}
	return err
}

// transform runs the steps on a window's sources.
func (s *Stream) transform(ctx context.Context, w *tensor.Window) error {
	sources := len(w.Slots)
	if err := s.expect(ctx, w); err != nil {
		return err
	}
	s.unexpected = s.windows.excerpted
	s.pictures.Most = s.quota.rest() + s.holds.scratch - s.chain.Kept()
	s.chain.Place(s.rows(w), s.pictures)
	stats := s.stats
	err := stats.timed(&stats.transform, func() error {
		s.ops.begin()
		slots, err := s.chain.Run(w.Slots)
		if err == nil {
			w.Slots = slots
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.correct(ctx, w.Slots[sources:])
}

// choose applies filter, sampling and shuffle; nil stands for all rows as they are.
func (s *Stream) choose(w *tensor.Window) ([]int32, error) {
	rows := s.rows(w)
	selects := s.filter != nil || s.chain.Selects()
	if !selects && !s.program.GetShuffle() {
		return nil, nil
	}
	s.ops.begin()
	scratch := &s.windows
	scratch.chosen = vector.Grow(scratch.chosen, vector.Words(w.Rows))
	for i := range scratch.chosen {
		scratch.chosen[i] = ^uint64(0)
	}
	if s.filter != nil {
		window := rowfilter.Window{Vectors: w.Slots, Rows: w.Rows, File: rows.File, First: rows.First}
		if err := s.filter.Select(window, scratch.chosen); err != nil {
			return nil, err
		}
	}
	s.chain.Select(rows, scratch.chosen)
	scratch.order = rowsOf(scratch.chosen, w.Rows, scratch.order)
	if selects {
		s.ops.end(s.ops.filter)
	}
	if s.program.GetShuffle() {
		shuffle(scratch.order, rows)
		s.ops.end(s.ops.shuffle)
	}
	return scratch.order, nil
}

// rows says where a window lies, for what is random.
func (s *Stream) rows(w *tensor.Window) transform.Rows {
	return transform.Rows{
		Seed:  s.program.GetSeed(),
		Epoch: s.ticket.GetEpoch(),
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

// cut sends output rows of a window, from a cursor in it to its end, as batches of about the configured size.
func (s *Stream) cut(ctx context.Context, w *tensor.Window, at Cursor, out chan<- Batch) error {
	total := w.Len()
	if at.K >= uint64(total) {
		return nil
	}
	most, stats := s.cfg.MaxBatch, s.stats
	step := s.builder.RowsFor(w, s.batch)
	for from := int(at.K); from < total; {
		p := s.builder.Cut(w, from, step, 2*s.batch)
		if p.Bytes > most {
			return fmt.Errorf("row %d takes %d bytes as tensors; a batch may have %d: leave it out by a filter, or shorten it by a transform",
				w.RowOf(w.Source(from)), p.Bytes, most)
		}
		b, err := s.builder.Take(ctx)
		if err != nil {
			return err
		}
		if err := s.makeRoom(ctx, b, p); err != nil {
			b.Release()
			return err
		}
		if err := stats.timed(&stats.tensor, func() error { return s.builder.Build(b, w, p) }); err != nil {
			return err
		}
		if err := s.quota.raise(ctx, &s.holds.scratch, s.chain.Scratch(), 1); err != nil {
			b.Release()
			return fmt.Errorf("memory to make pictures in: %w", err)
		}
		meta := &pb.BatchMeta{Window: at.Window, K: uint64(from), Rows: uint32(p.To - from), Last: p.To == total}
		if err := offer(ctx, out, Batch{Batch: b, Meta: meta}); err != nil {
			return err
		}
		s.sent = Cursor{Window: at.Window, K: uint64(p.To)}
		if meta.Last {
			s.sent = Cursor{Window: at.Window + 1}
		}
		from = p.To
	}
	return nil
}
