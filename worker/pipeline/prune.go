package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/prune"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/columns"
)

// maxIndexes bounds the bytes of page indexes that are read for a row group.
const maxIndexes = 16 << 20

// pruned is a row group of which some windows need not be read.
type pruned struct {
	want  []bool          // by window
	pages [][]footer.Page // of each of the stream's leaves; nil where there is no index, and something is wanted
}

// prune finds by the page index which windows of a row group of the ticket have no row that passes the filter, or lie before the
// cursor. It returns nil if there are none, or if the file does not tell: an index that cannot be read, or that contradicts itself or its
// neighbours, is as good as none. What it returns is counted, as long as its unit is there.
func (s *Stream) prune(ctx context.Context, g *pb.RowGroup, skip int64) *pruned {
	if s.expr == nil && skip == 0 {
		return nil
	}
	rg := &s.file.footer.RowGroups[g.GetIndex()]
	var ranges []storage.Range
	var indexes int64
	for _, leaf := range s.file.leaves {
		ranges = append(ranges, rg.Chunks[leaf].OffsetIndex())
	}
	filtered := s.filterLeaves()
	for _, leaf := range filtered {
		ranges = append(ranges, rg.Chunks[leaf].ColumnIndex())
	}
	for _, r := range ranges {
		indexes += r.Length
	}
	if indexes == 0 || indexes > maxIndexes || !s.large(g) {
		return nil
	}
	data, raw, err := s.readIndexes(ctx, ranges)
	defer func() { s.account.Give(raw) }()
	if err != nil {
		return nil
	}
	p := &pruned{pages: make([][]footer.Page, len(s.file.leaves))}
	for i, leaf := range s.file.leaves {
		if len(data[i]) == 0 {
			continue
		}
		if p.pages[i], err = s.file.footer.Pages(int(g.GetIndex()), leaf, data[i]); err != nil {
			s.stats.untrusted.Add(1)
		}
	}
	p.want = slices.Repeat([]bool{true}, int(windows(g)))
	if s.expr != nil {
		p.want = prune.Windows(s.expr, s.filterColumns(g, p, filtered, data[len(s.file.leaves):]), g.GetRows(), g.GetWindowRows())
	}
	for w := range skip / g.GetWindowRows() {
		p.want[w] = false
	}
	if !slices.Contains(p.want, false) {
		return nil
	}
	if !slices.Contains(p.want, true) { // nothing is read: wherever pages are, all are passed over
		for i, leaf := range s.file.leaves {
			p.pages[i] = []footer.Page{{Offset: rg.Chunks[leaf].Offset}}
		}
	}
	if !s.account.Try(p.bytes()) {
		return nil
	}
	return p
}

// bytes is what it holds.
func (p *pruned) bytes() (n int64) {
	for _, pages := range p.pages {
		n += int64(cap(pages)) * int64(unsafe.Sizeof(footer.Page{}))
	}
	return n
}

// readIndexes reads page indexes, in memory that the caller gives back. It does not wait for that, as the decoder may at the same time.
func (s *Stream) readIndexes(ctx context.Context, ranges []storage.Range) (data [][]byte, taken int64, err error) {
	stats := s.stats
	err = stats.timed(&stats.storage, func() (err error) {
		how := s.layout.how
		data, err = storage.ReadRanges(ctx, s.storage, s.program.GetStorage(), s.ticket.GetFile(), ranges, how, func(size int64) ([]byte, error) {
			if !s.account.Try(size) {
				return nil, ErrBusy
			}
			taken = size
			return make([]byte, size), nil
		})
		return err
	})
	return data, taken, err
}

// filterLeaves are the leaves of the filter's columns that pages have statistics of: those of scalars.
func (s *Stream) filterLeaves() []int {
	var leaves []int
	if s.filter == nil {
		return nil
	}
	for _, slot := range s.filter.Columns() {
		source := s.program.GetSources()[slot]
		column, ok := s.file.footer.Column(strings.Join(source.GetPath(), "."))
		if ok && source.Key == nil && !source.GetType().GetList() {
			from, _ := s.file.footer.LeavesOf(column)
			leaves = append(leaves, from)
		}
	}
	return leaves
}

// filterColumns is what is known of the filter's columns: nothing of those whose statistics are not to be trusted. Indexes are those of
// filterLeaves.
func (s *Stream) filterColumns(g *pb.RowGroup, p *pruned, leaves []int, indexes [][]byte) map[string]*prune.Column {
	known := map[string]*prune.Column{}
	rg, next := int(g.GetIndex()), 0
	for _, slot := range s.filter.Columns() {
		source := s.program.GetSources()[slot]
		_, ok := s.file.footer.Column(strings.Join(source.GetPath(), "."))
		switch {
		case !ok:
			known[source.GetName()] = &prune.Column{Source: source, Nulls: s.file.footer.Nulls(source.GetPath())}
			continue
		case source.Key != nil || source.GetType().GetList():
			continue
		}
		leaf, index := leaves[next], indexes[next]
		next++
		stats := s.file.footer.RowGroups[rg].Chunks[leaf].Stats
		if stats.Contradiction != "" {
			continue
		}
		c := &prune.Column{Source: source, Leaf: &s.file.footer.Leaves[leaf], Stats: []footer.Stats{stats}}
		if i, ok := slices.BinarySearch(s.file.leaves, leaf); ok && p.pages[i] != nil && len(index) > 0 {
			var err error
			if c.Stats, err = s.file.footer.PageStats(rg, leaf, p.pages[i], index); err != nil {
				s.stats.untrusted.Add(1)
				continue
			}
			c.Pages = p.pages[i]
		}
		known[source.GetName()] = c
	}
	return known
}

// ranges are the bytes of a leaf's chunk that the wanted windows take.
func (p *pruned) ranges(s *Stream, g *pb.RowGroup, i int) []storage.Range {
	c := &s.file.footer.RowGroups[g.GetIndex()].Chunks[s.file.leaves[i]]
	if p.pages[i] == nil {
		return []storage.Range{{Offset: c.Offset, Length: c.Length}}
	}
	return columns.Ranges(c, p.pages[i], g.GetRows(), g.GetWindowRows(), p.want)
}

// sparse is a chunk of which some pages are in memory.
type sparse struct {
	at     int64 // of the chunk
	ranges []storage.Range
	data   [][]byte
}

// Bytes is that of columns.Source.
func (c *sparse) Bytes(from, n int) ([]byte, error) {
	for i, r := range c.ranges {
		if at := c.at + int64(from) - r.Offset; at >= 0 && at+int64(n) <= r.Length {
			return c.data[i][at:], nil
		}
	}
	return nil, errors.New("it is not where the page index has it: the file is damaged")
}

// sources are the chunks of a pruned row group.
func (s *Stream) sources(g *rowGroup) []columns.Source {
	out := make([]columns.Source, len(s.file.leaves))
	ranges, chunks := g.ranges, g.chunks
	for i, n := range g.perLeaf {
		out[i] = &sparse{s.file.footer.RowGroups[g.GetIndex()].Chunks[s.file.leaves[i]].Offset, ranges[:n], chunks[:n]}
		ranges, chunks = ranges[n:], chunks[n:]
	}
	return out
}
