package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// pageBytes is what writers make pages of, and dictionaries. A chunk with longer ones has the stream ask for more as it meets them.
const pageBytes = 1 << 20

// holding is what a stream holds, in bytes.
type holding struct {
	chunks  int64 // of the row groups that are read at once
	pages   int64 // decompressed, and dictionaries
	sources int64 // the decoded sources of a window
	results int64 // those of the steps, and the selection
	batch   int64 // one, as large as is usual
	longer  int64 // what batches have beyond that, all together
	packed  int64 // a compressed one
	scratch int64 // of the steps, beside results
	later   int64 // what pages and dictionaries may come to beyond that, if they are as long as most writers make them
}

func (h holding) total() int64 {
	return h.chunks + h.pages + h.sources + h.results + batchesOut*h.batch + h.longer + HandedOver*h.packed + h.scratch
}

// fit estimates, with row groups in pieces as large as a stream's share of the memory allows, or smaller, or whole, if only so it comes to
// its end.
func (s *Stream) fit() holding {
	s.expectWindows()
	held := s.account.Held()
	left := s.pipeline.MemoryLimit() - s.pipeline.memory.Mapped() - held
	best := s.plan(s.pipeline.rowGroupLimit())
	if best.most() > left {
		plans := s.plans(best)
		switch at := slices.IndexFunc(plans, func(p plan) bool { return p.most() <= left }); {
		case at >= 0:
			best = plans[at]
		case best.total() > left: // pages may be shorter than is feared
			best = slices.MinFunc(plans, func(a, b plan) int { return cmp.Compare(a.total(), b.total()) })
		}
	}
	s.limit = best.limit
	s.account.Enough = s.enough(held)
	return best.holding
}

// mostGuesses bounds how often enough looks again.
const mostGuesses = 10

// enough tells of how many bytes a budget has to be for this stream alone, which holds some already, as far as is known now. In a larger one
// batches may be larger, and row groups read as a whole, so more is enough than there is no room for in this one.
func (s *Stream) enough(held int64) func() int64 {
	with, limit := *s, s.pipeline.MemoryLimit()
	with.engine = nil // it may be another stream's
	return func() int64 {
		bytes := limit
		for range mostGuesses {
			with.pipeline = &Pipeline{cfg: with.pipeline.cfg, memory: memory.New(memory.Config{Limit: bytes})}
			if with.batch > 0 {
				with.batch = with.pipeline.batchBytes(with.program)
			}
			plans := with.plans(with.plan(with.pipeline.rowGroupLimit()))
			least := slices.MinFunc(plans, func(a, b plan) int { return cmp.Compare(a.most(), b.most()) })
			if held+least.most() <= bytes {
				break
			}
			bytes = held + least.most()
		}
		return bytes
	}
}

// plan is what a stream holds if row groups up to a limit are read as a whole, and others in pieces.
type plan struct {
	limit int64
	holding
}

func (h holding) most() int64 { return h.total() + h.later }

func (s *Stream) plan(limit int64) plan {
	return plan{limit, s.estimate(limit)}
}

// plans are one, those of smaller pieces, and that of none.
func (s *Stream) plans(first plan) []plan {
	plans := []plan{first}
	for limit := first.chunks - 1; ; {
		last, next := plans[len(plans)-1], s.plan(limit)
		switch {
		case next.chunks < last.chunks:
			plans = append(plans, next)
			limit = next.chunks - 1
		case limit >= last.chunks/longPagesTimes:
			limit = last.chunks/longPagesTimes - 1 // pages are long
		default:
			return append(plans, s.plan(math.MaxInt64))
		}
	}
}

// estimate is what the footer lets expect of the row groups that are left to read. It may be too little, for what dictionaries, lists
// of uneven lengths and long values come to shows only in decoding: the stream then asks for more, before it holds it.
func (s *Stream) estimate(limit int64) holding {
	h := holding{batch: s.batch, packed: s.batch, scratch: s.expects.tables, sources: s.expects.bytes, results: s.expects.results}
	var all int64
	for i, g := range s.ticket.GetRowGroups()[s.start.rowGroup:] {
		u := s.unit(s.start.rowGroup+i, 1, limit)
		all += u.size
		h.chunks = max(h.chunks, u.size)
		pages, later := s.pageBytes(g)
		h.pages = max(h.pages, pages)
		h.later = max(h.later, later+s.longer(u))
	}
	h.chunks = max(h.chunks, 2*min(all, s.pipeline.unitBytes())) // so that small row groups are read together
	return h
}

// pageBytes is what the pages of a row group take, and how much more that may be: slices grow by more than they need, and what is in a
// dictionary is there twice while it is read.
func (s *Stream) pageBytes(g *pb.RowGroup) (pages, later int64) {
	for _, leaf := range s.leaves {
		c := &s.footer.RowGroups[g.GetIndex()].Chunks[leaf]
		page := min(c.Pages(), pageBytes)
		pages += page
		later += page / 4
		if columns.Indexed(c) {
			later += page + page/4
		}
	}
	return pages, later
}

// size is what a slot has in a window: elements, or rows of scalars, and their bytes.
type size struct{ values, bytes int64 }

// sourceSizes estimates the sources of a window of a row group, and all that they take.
func (s *Stream) sourceSizes(g *pb.RowGroup, rows int64) (sizes []size, bytes int64) {
	maps := make(map[string]bool) // that are decoded, once for all of their keys
	for _, src := range s.program.GetSources() {
		path := strings.Join(src.GetPath(), ".")
		z := s.sourceSize(path, src, g, rows)
		if src.Key != nil {
			entries := z.bytes
			z = size{rows, 16 * rows} // a value and its place
			if !maps[path] {
				maps[path], bytes = true, bytes+entries
			}
		}
		sizes = append(sizes, z)
		bytes += z.bytes
	}
	return sizes, bytes
}

// resultBytes is what the steps make of a window of so many rows, whose sources are of such sizes.
func (s *Stream) resultBytes(sources []size, rows int64) int64 {
	sizes := append(make([]size, 0, len(sources)+len(s.program.GetSteps())), sources...)
	bytes := 5 * rows // the selection: a bit and an int32
	for _, step := range s.program.GetSteps() {
		if step.GetOuts() == 0 {
			continue
		}
		var z size
		for _, slot := range step.GetIn() {
			z.values += sizes[slot].values
			z.bytes += sizes[slot].bytes
		}
		z.values = max(z.values, s.chain.Makes(len(sizes)-len(sources), rows))
		switch kind := step.GetType().GetKind(); {
		case kind == pb.Kind_PICTURE:
			z.bytes = 0 // what it is made of, until it is in a batch
		case step.GetType().GetList(), kind == pb.Kind_BINARY:
			z.bytes = max(z.bytes, widthOf(kind)*z.values+4*rows)
		default:
			z = size{rows, widthOf(kind)*(rows+rows/8+64) + rows/4} // slices grow by more than they need, and there is a bitmap
		}
		sizes = append(sizes, z)
		bytes += z.bytes
	}
	return bytes
}

// widthOf is how many bytes a value of a kind takes, beside those of strings themselves.
func widthOf(k pb.Kind) int64 {
	switch k {
	case pb.Kind_BOOL:
		return 1
	case pb.Kind_INT32, pb.Kind_FLOAT32, pb.Kind_BINARY:
		return 4
	}
	return 8
}

// sourceSize is that of a source, or of all of the map that it is a key of.
func (s *Stream) sourceSize(path string, src *pb.Source, g *pb.RowGroup, rows int64) size {
	column, ok := s.footer.Column(path)
	if !ok { // its default, or null
		n := rows * int64(max(1, len(spec.Elements(src.GetDefault()))))
		return size{n, n*int64(8+len(src.GetDefault().GetText())) + 4*rows}
	}
	var z size
	from, to := s.footer.LeavesOf(column)
	for leaf := from; leaf < to; leaf++ {
		c := &s.footer.RowGroups[g.GetIndex()].Chunks[leaf]
		share := float64(rows) / float64(max(1, g.GetRows()))
		n := int64(share * float64(c.Values))
		z.values += n
		z.bytes += 8*n + 4*rows // values, or the ends of bytes, and offsets
		if s.footer.Leaves[leaf].Physical >= footer.ByteArray {
			z.bytes += int64(share * float64(max(c.Pages(), c.Plain)))
		}
	}
	z.bytes += z.bytes / 4 // slices grow by more than they need, and there are bitmaps
	return z
}

// more takes memory beyond what Open took: the least beyond the stream's share, else as much as there is, up to wish. For the least it
// waits as Open does.
func (s *Stream) more(ctx context.Context, least, wish int64) (int64, error) {
	if s.account.Held()+wish > s.pipeline.share() {
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

// expected is what a stream expects of a window, whatever a kit brought.
type expected struct {
	sources        []size // of each the largest
	rows           int64
	bytes, results int64 // of all sources, and of what is made of them
	tables         int64 // that steps look up
}

// expectWindows is what the footer lets expect of the row groups that are left to read.
func (s *Stream) expectWindows() {
	s.expects.tables = s.chain.Tables()
	for _, g := range s.ticket.GetRowGroups()[s.start.rowGroup:] {
		rows := min(g.GetWindowRows(), g.GetRows())
		sizes, bytes := s.sourceSizes(g, rows)
		s.expects.see(sizes, rows)
		s.expects.bytes, s.expects.results = max(s.expects.bytes, bytes), max(s.expects.results, s.resultBytes(sizes, rows))
	}
}

// see expects no less than a window of such sources, and reports whether that was more than before.
func (e *expected) see(sources []size, rows int64) (more bool) {
	e.rows = max(e.rows, rows)
	if e.sources == nil {
		e.sources = make([]size, len(sources))
	}
	for i, z := range sources {
		have := &e.sources[i]
		more = more || z.values > have.values || z.bytes > have.bytes
		*have = size{max(have.values, z.values), max(have.bytes, z.bytes)}
	}
	return more
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
	s.expects.results = max(s.expects.results, s.resultBytes(s.expects.sources, s.expects.rows))
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
