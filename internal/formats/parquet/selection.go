package parquet

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Selection is what is wanted of a row group, by its page indexes.
type Selection struct {
	Pages [][]Page // of each of the bound's chunks; nil where there is no index, and something is wanted

	bound      *Bound
	rowGroup   int
	windowRows int64
	want       []bool // by window
}

// Index is where the page indexes of a row group lie: where pages are, of all chunks, and then their statistics, of the
// filter's.
func (b *Bound) Index(rowGroup int, by format.Filter) []storage.Range {
	var ranges []storage.Range
	for i := range b.Uses {
		ranges = append(ranges, b.chunk(rowGroup, i).OffsetIndex())
	}
	for _, source := range by.Sources {
		if b.hasPageStats(source) {
			ranges = append(ranges, b.ChunkOf(rowGroup, b.bySource[source][0]).ColumnIndex())
		}
	}
	return ranges
}

// hasPageStats reports whether pages have statistics of a source, which those of scalars have.
func (b *Bound) hasPageStats(source int) bool { return b.Has(source) && scalar(b.Sources[source]) }

// Select finds by page indexes which windows of a row group need not be read.
func (b *Bound) Select(
	rowGroup int, by format.Filter, windowRows, skip int64, index [][]byte,
) (_ format.Selection, untrusted format.Untrusted) {
	rows := b.RowGroups[rowGroup].Rows
	places, stats := index[:len(b.Uses)], index[len(b.Uses):]
	s := &Selection{bound: b, rowGroup: rowGroup, windowRows: windowRows, Pages: make([][]Page, len(places))}
	for i, use := range b.Uses {
		if len(places[i]) == 0 {
			continue
		}
		var err error
		if s.Pages[i], err = b.Pages(rowGroup, use.Leaf, places[i]); err != nil {
			untrusted.Add(fmt.Sprintf("column %s: %v", quoted(b.Leaves[use.Leaf].Path), err))
		}
	}
	s.want = slices.Repeat([]bool{true}, int((rows+windowRows-1)/windowRows))
	if by.Expr != nil {
		s.want = mayPass(by.Expr, s.known(by.Sources, stats, &untrusted), rows, windowRows)
	}
	for w := range skip / windowRows {
		s.want[w] = false
	}
	if !slices.Contains(s.want, false) {
		return nil, untrusted
	}
	if !slices.Contains(s.want, true) { // nothing is read: wherever pages are, all are passed over
		for i := range s.Pages {
			s.Pages[i] = []Page{{Offset: b.chunk(rowGroup, i).Offset}}
		}
	}
	return s, untrusted
}

// known is what is known of a filter's sources: nothing of those whose statistics are not to be trusted. Indexes are
// those of the sources that are paged.
func (s *Selection) known(sources []int, indexes [][]byte, untrusted *format.Untrusted) map[string]*paged {
	known := map[string]*paged{}
	b := s.bound
	rows := b.RowGroups[s.rowGroup].Rows
	for _, source := range sources {
		name := b.Sources[source].GetName()
		if !b.hasPageStats(source) {
			if stats, ok := b.Stats(s.rowGroup, source); ok {
				known[name] = &paged{all: stats}
			}
			continue
		}
		index := indexes[0]
		indexes = indexes[1:]
		if b.Contradiction(s.rowGroup, source) != "" {
			continue
		}
		stats, _ := b.Stats(s.rowGroup, source)
		p := &paged{all: stats}
		leaf := b.bySource[source][0]
		i := slices.IndexFunc(b.Uses, func(u Use) bool { return u.Leaf == leaf })
		if s.Pages[i] != nil && len(index) > 0 {
			each, err := b.PageStats(s.rowGroup, leaf, s.Pages[i], index)
			if err != nil {
				untrusted.Add(fmt.Sprintf("column %s: %v", quoted(b.Leaves[leaf].Path), err))
				continue
			}
			p.pages = s.Pages[i]
			for at := range each {
				p.stats = append(p.stats, valuesIn(b.Sources[source], &b.Leaves[leaf], &each[at],
					RowsOf(p.pages, at, rows)))
			}
		}
		known[name] = p
	}
	return known
}

// Wants reports whether a window is wanted.
func (s *Selection) Wants(window int64) bool { return s.want[window] }

// Size is what it holds.
func (s *Selection) Size() (n int64) {
	for _, pages := range s.Pages {
		n += int64(cap(pages)) * int64(unsafe.Sizeof(Page{}))
	}
	return n
}

// Ranges are the bytes of a chunk that the wanted windows take.
func (s *Selection) Ranges(i int) []storage.Range {
	c := s.bound.chunk(s.rowGroup, i)
	if s.Pages[i] == nil {
		return []storage.Range{{Offset: c.Offset, Length: c.Length}}
	}
	return PageRanges(c, s.Pages[i], s.bound.RowGroups[s.rowGroup].Rows, s.windowRows, s.want)
}

// PageRanges returns which bytes of a chunk are decoded, by its page index, of the windows in want: a dictionary, and
// pages with rows of these windows.
func PageRanges(c *Chunk, pages []Page, rows, windowRows int64, want []bool) []storage.Range {
	var out []storage.Range
	add := func(from, to int64) {
		if n := len(out); n > 0 && out[n-1].Offset+out[n-1].Length >= from {
			out[n-1].Length = max(out[n-1].Length, to-out[n-1].Offset)
		} else if to > from {
			out = append(out, storage.Range{Offset: from, Length: to - from})
		}
	}
	for w, wanted := range want {
		if !wanted {
			continue
		}
		if len(out) == 0 {
			add(c.Offset, pages[0].Offset)
		}
		from := int64(w) * windowRows
		first, last := PageAt(pages, from, rows), PageAt(pages, min(from+windowRows, rows)-1, rows)
		end := c.Offset + c.Length
		if last+1 < len(pages) {
			end = pages[last+1].Offset
		}
		add(pages[first].Offset, end)
	}
	return out
}

// paged is what is known of a source in a row group: of its pages, or of all rows.
type paged struct {
	all   filter.Stats
	pages []Page // nil: there is no page index
	stats []filter.Stats
}

// within describes n rows from a row on, as many as lie before the next cut.
func (p *paged) within(row, n, rows int64) filter.Stats {
	s := p.all
	if p.pages != nil {
		s = p.stats[PageAt(p.pages, row, rows)]
	}
	switch s.Nulls { // those of a part of the rows
	case 0:
	case s.Rows:
		s.Nulls = n
	default:
		s.Nulls = -1
	}
	s.Rows = n
	return s
}

// mayPass reports which windows of a row group may have a row that passes. Sources are by name; what is not known of
// one excludes nothing.
func mayPass(expr *filter.Expr, sources map[string]*paged, rows, windowRows int64) []bool {
	may := make([]bool, (rows+windowRows-1)/windowRows)
	cuts := []int64{0, rows}
	for _, p := range sources {
		for _, page := range p.pages {
			cuts = append(cuts, page.FirstRow)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := range len(cuts) - 1 {
		from, to := cuts[i], cuts[i+1]
		pass := expr.MayMatch(func(column string) (filter.Stats, bool) {
			p, ok := sources[column]
			if !ok {
				return filter.Stats{}, false
			}
			return p.within(from, to-from, rows), true
		})
		for w := from / windowRows; pass && w*windowRows < to; w++ {
			may[w] = true
		}
	}
	return may
}
