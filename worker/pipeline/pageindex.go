package pipeline

import (
	"errors"
	"slices"
	"strings"
	"unsafe"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/prune"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/columns"
)

// maxIndexes bounds the bytes of page indexes that are read for a row group.
const maxIndexes = 16 << 20

// pageIndex finds by the page indexes of a file which windows of a row group have no row that passes the filter, or lie
// before the cursor. An index that cannot be read, or that contradicts itself or its neighbours, is as good as none.
type pageIndex struct {
	file    *bound
	expr    *filter.Expr // nil: there is no filter
	sources []*pb.Source // of the filter
	leaves  []int        // of the footer: of those of the sources that pages have statistics of, which are scalars
}

func newPageIndex(file *bound, expr *filter.Expr, sources []*pb.Source) pageIndex {
	x := pageIndex{file: file, expr: expr, sources: sources}
	for _, source := range sources {
		column, ok := file.footer.Column(strings.Join(source.GetPath(), "."))
		if ok && source.Key == nil && !source.GetType().GetList() {
			from, _ := file.footer.LeavesOf(column)
			x.leaves = append(x.leaves, from)
		}
	}
	return x
}

// pruned is a row group of which some windows need not be read.
type pruned struct {
	want  []bool          // by window
	pages [][]footer.Page // of each of the file's leaves; nil where there is no index, and something is wanted
}

// bytes is what it holds.
func (p *pruned) bytes() (n int64) {
	for _, pages := range p.pages {
		n += int64(cap(pages)) * int64(unsafe.Sizeof(footer.Page{}))
	}
	return n
}

// ranges are where the indexes of a row group lie: where pages are, of all leaves, and their statistics, of the
// filter's.
func (x *pageIndex) ranges(g *pb.RowGroup) []storage.Range {
	var ranges []storage.Range
	for _, leaf := range x.file.leaves {
		ranges = append(ranges, x.file.chunk(g, leaf).OffsetIndex())
	}
	for _, leaf := range x.leaves {
		ranges = append(ranges, x.file.chunk(g, leaf).ColumnIndex())
	}
	return ranges
}

// prune is what the indexes at ranges tell; nil if all windows are wanted. It counts those that are not to be trusted.
func (x *pageIndex) prune(g *pb.RowGroup, skip int64, indexes [][]byte) (_ *pruned, untrusted int64) {
	places, stats := indexes[:len(x.file.leaves)], indexes[len(x.file.leaves):]
	p := &pruned{pages: make([][]footer.Page, len(places)), want: slices.Repeat([]bool{true}, int(windows(g)))}
	for i, leaf := range x.file.leaves {
		if len(places[i]) == 0 {
			continue
		}
		var err error
		if p.pages[i], err = x.file.footer.Pages(int(g.GetIndex()), leaf, places[i]); err != nil {
			untrusted++
		}
	}
	if x.expr != nil {
		known, more := x.known(g, p, stats)
		untrusted += more
		p.want = prune.Windows(x.expr, known, g.GetRows(), g.GetWindowRows())
	}
	for w := range skip / g.GetWindowRows() {
		p.want[w] = false
	}
	if !slices.Contains(p.want, false) {
		return nil, untrusted
	}
	if !slices.Contains(p.want, true) { // nothing is read: wherever pages are, all are passed over
		for i, leaf := range x.file.leaves {
			p.pages[i] = []footer.Page{{Offset: x.file.chunk(g, leaf).Offset}}
		}
	}
	return p, untrusted
}

// known is what is known of the filter's columns: nothing of those whose statistics are not to be trusted. Indexes are
// those of the filter's leaves.
func (x *pageIndex) known(
	g *pb.RowGroup, p *pruned, indexes [][]byte,
) (known map[string]*prune.Column, untrusted int64) {
	known = map[string]*prune.Column{}
	f, rg, next := x.file.footer, int(g.GetIndex()), 0
	for _, source := range x.sources {
		_, ok := f.Column(strings.Join(source.GetPath(), "."))
		switch {
		case !ok:
			known[source.GetName()] = &prune.Column{Source: source, Nulls: f.Nulls(source.GetPath())}
			continue
		case source.Key != nil || source.GetType().GetList():
			continue
		}
		leaf, index := x.leaves[next], indexes[next]
		next++
		stats := x.file.chunk(g, leaf).Stats
		if stats.Contradiction != "" {
			continue
		}
		c := &prune.Column{Source: source, Leaf: &f.Leaves[leaf], Stats: []footer.Stats{stats}}
		if i, ok := slices.BinarySearch(x.file.leaves, leaf); ok && p.pages[i] != nil && len(index) > 0 {
			var err error
			if c.Stats, err = f.PageStats(rg, leaf, p.pages[i], index); err != nil {
				untrusted++
				continue
			}
			c.Pages = p.pages[i]
		}
		known[source.GetName()] = c
	}
	return known, untrusted
}

// pruned are the bytes of a row group's chunk number i that the wanted windows take.
func (b *bound) pruned(g *pb.RowGroup, i int, p *pruned) []storage.Range {
	c := b.chunk(g, b.leaves[i])
	if p.pages[i] == nil {
		return []storage.Range{{Offset: c.Offset, Length: c.Length}}
	}
	return columns.Ranges(c, p.pages[i], g.GetRows(), g.GetWindowRows(), p.want)
}

// sparse are the chunks of a pruned row group.
func (b *bound) sparse(g *rowGroup) []columns.Source {
	out := make([]columns.Source, len(b.leaves))
	ranges, chunks := g.ranges, g.chunks
	for i, n := range g.perLeaf {
		out[i] = &sparse{b.chunk(g.RowGroup, b.leaves[i]).Offset, ranges[:n], chunks[:n]}
		ranges, chunks = ranges[n:], chunks[n:]
	}
	return out
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
