package pipeline

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/rescue"
)

// unitsOut bounds how many units of a stream are under way or wait for their turn.
const unitsOut = 16

// prunedUnit is what is read of a row group that is pruned; nil if that is too much to be held.
func (s *Stream) prunedUnit(i int, p *pruned) *unit {
	g := &rowGroup{RowGroup: s.ticket.GetRowGroups()[i], skip: s.layout.skip(i), pruned: p}
	for leaf := range s.file.leaves {
		ranges := p.ranges(s, g.RowGroup, leaf)
		g.ranges, g.perLeaf = append(g.ranges, ranges...), append(g.perLeaf, len(ranges))
	}
	how := s.layout.how
	u := &unit{groups: []*rowGroup{g}, how: how, ranges: g.ranges, size: how.Size(g.ranges), index: p.bytes(), done: make(chan struct{})}
	if u.size > s.chunks.Base() { // there might never be room for it
		return nil
	}
	return u
}

// next is what is read at once from a row group of the ticket on.
func (s *Stream) next(ctx context.Context, i int) *unit {
	groups := s.ticket.GetRowGroups()
	if p := s.prune(ctx, groups[i], s.layout.skip(i)); p != nil {
		if u := s.prunedUnit(i, p); u != nil {
			return u
		}
		s.account.Give(p.bytes())
	}
	if i == s.layout.start.rowGroup || s.expr != nil && s.large(groups[i]) {
		return s.unit(i, 1, s.limit)
	}
	return s.unit(i, len(groups), s.limit)
}

// large reports whether a row group is asked for its page index.
func (s *Stream) large(g *pb.RowGroup) bool {
	return s.file.length(g) > s.pipeline.cfg.OverRead
}

// unit is what is read at once from a row group of the ticket on, of at most so many row groups.
func (s *Stream) unit(i, max int, limit int64) *unit {
	return s.layout.units(i, max, min(s.pipeline.limits().unit(), s.chunks.Base()/2), limit)
}

// startFetch has a goroutine of the group read the row groups.
func (s *Stream) startFetch(ctx context.Context, group *errgroup.Group) <-chan *unit {
	s.decoder.AskFor(func(least, wish int64) (int64, error) { return s.more(ctx, least, wish) })
	units := make(chan *unit, unitsOut)
	group.Go(func() error {
		defer close(units)
		return rescue.Call(rescue.Worker, func() error { return s.fetch(ctx, group, units) })
	})
	return units
}

// fetch reads the row groups ahead of their use as far as there is memory. The first comes alone, so that its rows need not wait.
func (s *Stream) fetch(ctx context.Context, group *errgroup.Group, out chan<- *unit) error {
	for i := s.layout.start.rowGroup; i < len(s.ticket.GetRowGroups()); {
		u := s.next(ctx, i)
		i += len(u.groups)
		var err error
		if u.buffer, err = s.chunks.Get(ctx, u.size); err != nil {
			return err
		}
		group.Go(func() error {
			defer close(u.done)
			return rescue.Call(rescue.Worker, func() error { return s.read(ctx, u) })
		})
		select {
		case out <- u:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// read reads a unit. An error takes its turn, so that the rows before it are sent: it is that of the row group that has it.
func (s *Stream) read(ctx context.Context, u *unit) error {
	chunks, err := s.readRanges(ctx, u.how, u.ranges, u.buffer)
	alone, buffer := storage.Reading{MaxGap: -1}, u.buffer
	for _, g := range u.groups {
		n := len(g.ranges)
		switch {
		case err == nil:
			g.chunks, chunks = chunks[:n:n], chunks[n:]
		case len(u.groups) == 1:
			g.err = err
		default:
			g.chunks, g.err = s.readRanges(ctx, alone, g.ranges, buffer)
			buffer = buffer[min(alone.Size(g.ranges), int64(len(buffer))):]
		}
		if g.err != nil {
			g.err = fmt.Errorf("row group %d: %w", g.GetIndex(), g.err)
			return nil //nolint:nilerr // eachWindow returns it in its turn, behind the rows before it
		}
	}
	return nil
}

// readRanges reads into the front of a buffer.
func (s *Stream) readRanges(ctx context.Context, how storage.Reading, ranges []storage.Range, buffer []byte) ([][]byte, error) {
	return storage.ReadRanges(ctx, s.storage, s.program.GetStorage(), s.ticket.GetFile(), ranges, how,
		func(size int64) ([]byte, error) {
			if size > int64(len(buffer)) {
				return nil, errors.New("column chunks lie within each other: the file is damaged")
			}
			return buffer[:size], nil
		})
}

// eachRowGroup begins the row groups, in their order, and hands them to f.
func (s *Stream) eachRowGroup(ctx context.Context, in <-chan *unit, f func(*rowGroup) error) error {
	for u := range in {
		stats := s.stats
		err := stats.timed(&stats.storage, func() error {
			select {
			case <-u.done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err != nil {
			return err
		}
		s.decoder.OwnChunks(apart(u.ranges))
		for _, g := range u.groups {
			if g.err != nil {
				return g.err
			}
			if err := s.begin(ctx, u, g, f); err != nil {
				return err
			}
		}
		s.chunks.Put(u.buffer)
		if u.index > 0 {
			s.account.Give(u.index)
		}
	}
	return context.Cause(ctx) // fetch may have ended before the shard did
}

// apart reports whether ranges lie one behind another, so that no two share memory: a leaf may be read as two kinds.
func apart(ranges []storage.Range) bool {
	end := int64(0)
	for _, r := range ranges {
		if r.Offset < end {
			return false
		}
		end = r.Offset + r.Length
	}
	return true
}

// begin hands a row group to the decoder, and then to f.
func (s *Stream) begin(ctx context.Context, u *unit, g *rowGroup, f func(*rowGroup) error) error {
	stats, uri, index := s.stats, s.ticket.GetFile().GetUri(), int(g.GetIndex())
	for _, r := range g.ranges {
		stats.bytesNeeded.Add(r.Length)
	}
	reset := func() error { return s.decoder.Reset(uri, s.file.footer, index, g.chunks) }
	if u.pieces.size > 0 {
		p := s.startParts(ctx, u)
		defer p.close()
		reset = func() error { return s.decoder.ResetSources(uri, s.file.footer, index, p.sources) }
	}
	if g.pruned != nil {
		reset = func() error {
			if err := s.decoder.ResetSources(uri, s.file.footer, index, s.sources(g)); err != nil {
				return err
			}
			return s.decoder.UsePages(g.pruned.pages)
		}
	}
	err := stats.timed(&stats.decode, func() error {
		if err := reset(); err != nil {
			return err
		}
		return s.decoder.Skip(int(g.skip))
	})
	if err != nil {
		return err
	}
	return f(g)
}
