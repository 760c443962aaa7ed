package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/rescue"
)

// unitsOut bounds how many units of a stream are under way or wait for their turn.
const unitsOut = 16

// reader reads the extents of a shard, ahead of their use as far as there is memory, and hands them over one by one.
type reader struct {
	job
	storage   storage.Storage // whose reads are counted
	filter    format.Filter
	limit     int64 // up to which extents are read as a whole
	uncounted bool  // what extents lay in was replaced, and is not counted any more
	// fronts are of the chunks' parts, beyond the memory of their units: of the last extent that was read in pieces.
	fronts [][]byte
}

// start has goroutines of the group read the extents.
func (r *reader) start(ctx context.Context, group *errgroup.Group) <-chan *unit {
	units := make(chan *unit, unitsOut)
	group.Go(func() error {
		defer close(units)
		return rescue.Call(rescue.Worker, func() error { return r.fetch(ctx, group, units) })
	})
	return units
}

// fetch reads the extents ahead of their use as far as there is memory. The first comes alone, so that its rows need
// not wait.
func (r *reader) fetch(ctx context.Context, group *errgroup.Group, out chan<- *unit) error {
	for i := r.layout.start.extent; i < len(r.layout.groups); {
		u := r.next(ctx, i)
		i += len(u.groups)
		var err error
		if u.buffer, err = r.quota.buffers.Get(ctx, u.size); err != nil {
			return err
		}
		group.Go(func() error {
			defer close(u.done)
			return rescue.Call(rescue.Worker, func() error { return r.read(ctx, u) })
		})
		select {
		case out <- u:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// next is what is read at once from an extent of the ticket on.
func (r *reader) next(ctx context.Context, i int) *unit {
	g := r.layout.groups[i]
	if s := r.selectWindows(ctx, g, r.layout.skip(i)); s != nil {
		if u := r.selectedUnit(i, s); u != nil {
			return u
		}
		r.quota.Give(s.Size())
	}
	if i == r.layout.start.extent || r.filter.Expr != nil && r.large(g) {
		return r.unit(i, 1, r.limit)
	}
	return r.unit(i, len(r.layout.groups), r.limit)
}

// unit is what is read at once from an extent of the ticket on, of at most so many extents.
func (r *reader) unit(i, count int, limit int64) *unit {
	return r.layout.units(i, count, min(r.quota.limits().unit(), r.quota.buffers.Base()/2), limit)
}

// large reports whether an extent is worth being asked for its index.
func (r *reader) large(g *pb.Extent) bool {
	var bytes int64
	for i := range r.layout.file.Chunks() {
		bytes += r.layout.file.Chunk(int(g.GetIndex()), i).Length
	}
	return bytes > r.cfg.OverRead
}

// maxIndexes bounds the bytes of indexes that are read for an extent.
const maxIndexes = 16 << 20

// selectWindows finds which windows of an extent of the ticket have no row that passes the filter, or lie before the
// cursor. It returns nil if there are none, if the file does not tell, or if to ask is not worth it. What it returns is
// counted, as long as its unit is there.
func (r *reader) selectWindows(ctx context.Context, g *pb.Extent, skip int64) format.Selection {
	indexed, ok := r.layout.file.Bound.(format.Indexed)
	if !ok || r.filter.Expr == nil && skip == 0 {
		return nil
	}
	ranges := indexed.Index(int(g.GetIndex()), r.filter)
	var indexes int64
	for _, x := range ranges {
		indexes += x.Length
	}
	if indexes == 0 || indexes > maxIndexes || !r.large(g) {
		return nil
	}
	data, raw, err := r.readIndexes(ctx, ranges)
	defer func() { r.quota.Give(raw) }()
	if err != nil {
		return nil
	}
	s, untrusted := indexed.Select(int(g.GetIndex()), r.filter, g.GetWindowRows(), skip, data)
	r.note(g, untrusted)
	if s == nil || !r.quota.Try(s.Size()) {
		return nil
	}
	return s
}

// note counts page indexes that cannot be used, and tells of the session's first.
func (r *reader) note(g *pb.Extent, indexes format.Untrusted) {
	if n := indexes.Count; n > 0 && r.stats.untrusted.Add(n) == n && r.cfg.Untrusted != nil {
		r.cfg.Untrusted(r.ticket, format.Name(r.file, int(g.GetIndex()))+" "+indexes.First)
	}
}

// readIndexes reads page indexes, in memory that the caller gives back. It does not wait for that, as the decoder may
// at the same time.
func (r *reader) readIndexes(ctx context.Context, ranges []storage.Range) (data [][]byte, taken int64, err error) {
	err = r.stats.timed(&r.stats.storage, func() (err error) {
		data, err = r.readRanges(ctx, r.layout.how, ranges, func(size int64) ([]byte, error) {
			if !r.quota.Try(size) {
				return nil, ErrBusy
			}
			taken = size
			return make([]byte, size), nil
		})
		return err
	})
	return data, taken, err
}

// selectedUnit is what is read of an extent of which not all is wanted; nil if that is too much to be held.
func (r *reader) selectedUnit(i int, s format.Selection) *unit {
	g := &extent{Extent: r.layout.groups[i], skip: r.layout.skip(i), selection: s}
	for chunk := range r.layout.file.Chunks() {
		ranges := s.Ranges(chunk)
		g.ranges, g.perChunk = append(g.ranges, ranges...), append(g.perChunk, len(ranges))
	}
	how := r.layout.how
	u := &unit{
		groups: []*extent{g}, how: how, ranges: g.ranges, size: how.Size(g.ranges), index: s.Size(),
		done: make(chan struct{}),
	}
	if u.size > r.quota.buffers.Base() { // there might never be room for it
		return nil
	}
	return u
}

// read reads a unit. An error takes its turn, so that the rows before it are sent: it is that of the extent that has
// it.
func (r *reader) read(ctx context.Context, u *unit) error {
	chunks, err := r.readInto(ctx, u.how, u.ranges, u.buffer)
	alone, buffer := storage.Reading{MaxGap: -1}, u.buffer
	for _, g := range u.groups {
		n := len(g.ranges)
		switch {
		case err == nil:
			g.chunks, chunks = chunks[:n:n], chunks[n:]
		case len(u.groups) == 1:
			g.err = err
		default:
			g.chunks, g.err = r.readInto(ctx, alone, g.ranges, buffer)
			buffer = buffer[min(alone.Size(g.ranges), int64(len(buffer))):]
		}
		if g.err != nil {
			g.err = fmt.Errorf("%s: %w", r.name(g), g.err)
			return nil //nolint:nilerr // extents returns it in its turn, behind the rows before it
		}
	}
	return nil
}

// readInto reads into the front of a buffer.
func (r *reader) readInto(
	ctx context.Context, how storage.Reading, ranges []storage.Range, buffer []byte,
) ([][]byte, error) {
	return r.readRanges(ctx, how, ranges, func(size int64) ([]byte, error) {
		if size > int64(len(buffer)) {
			return nil, errors.New("parts of it lie within each other: the file is damaged")
		}
		return buffer[:size], nil
	})
}

func (r *reader) readRanges(
	ctx context.Context, how storage.Reading, ranges []storage.Range, alloc func(size int64) ([]byte, error),
) ([][]byte, error) {
	return storage.ReadRanges(ctx, r.storage, r.program.GetStorage(), r.ticket.GetFile(), ranges, how, alloc)
}

// extents hands over the extents that start reads, in their order. What one lies in is the reader's again once the
// next one is asked for.
func (r *reader) extents(ctx context.Context, in <-chan *unit) iter.Seq2[*extent, error] {
	return func(yield func(*extent, error) bool) {
		for u := range in {
			if err := r.wait(ctx, u); err != nil {
				yield(nil, err)
				return
			}
			own := !slices.Contains(storage.Overlaps(u.ranges), true) // a leaf may be read as two kinds
			for _, g := range u.groups {
				if g.apart = own; !r.hand(ctx, u, g, yield) {
					return
				}
			}
			r.quota.buffers.Put(u.buffer)
			if u.index > 0 {
				r.quota.Give(u.index)
			}
		}
		if err := context.Cause(ctx); err != nil { // fetch may have ended before the shard did
			yield(nil, err)
		}
	}
}

// wait waits until a unit has been read, or could not be.
func (r *reader) wait(ctx context.Context, u *unit) error {
	return r.stats.timed(&r.stats.storage, func() error {
		select {
		case <-u.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// hand hands over an extent of a unit, and reports whether more are wanted.
func (r *reader) hand(ctx context.Context, u *unit, g *extent, yield func(*extent, error) bool) bool {
	if g.err != nil {
		yield(nil, g.err)
		return false
	}
	for _, x := range g.ranges {
		r.stats.bytesNeeded.Add(x.Length)
	}
	switch {
	case u.pieces.size > 0:
		p := r.startParts(ctx, u)
		defer p.close()
		g.sources = p.sources
	case g.selection != nil:
		g.sources = sparseChunks(r.layout.file, g)
	default:
		g.sources = wholeChunks(g.chunks)
	}
	return yield(g, nil)
}
