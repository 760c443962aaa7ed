// Package prune tells from statistics what of a file cannot pass a filter: row groups, for the master's planning, and windows,
// by the page index, for the worker. It knows no storage. Statistics that contradict themselves or their neighbours are used for nothing
// (package footer finds them); others are believed, as by every reader of Parquet: rows behind false bounds that fit all else are left out.
package prune

import (
	"slices"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
)

// Column is what is known of a column of a filter in one row group: of its pages, or of all rows.
type Column struct {
	Source *pb.Source
	Leaf   *footer.Leaf   // nil: the file lacks it
	Nulls  bool           // the file has nulls in its place
	Pages  []footer.Page  // nil: there is no page index
	Stats  []footer.Stats // of the pages, or of the chunk
}

// stats describes the rows from a row on, as many as lie before the next cut.
func (c *Column) stats(row, n, rows int64) (filter.Stats, bool) {
	switch {
	case c == nil || c.Leaf != nil && len(c.Stats) == 0:
		return filter.Stats{}, false
	case c.Nulls:
		return Nulls(n), true
	case c.Leaf == nil:
		return Absent(c.Source, n)
	case c.Pages == nil:
		return part(Stats(c.Source, c.Leaf, &c.Stats[0], rows), n), true
	}
	page := footer.PageAt(c.Pages, row, rows)
	return part(Stats(c.Source, c.Leaf, &c.Stats[page], footer.RowsOf(c.Pages, page, rows)), n), true
}

// part makes statistics those of n of their rows.
func part(s filter.Stats, n int64) filter.Stats {
	switch s.Nulls {
	case 0:
	case s.Rows:
		s.Nulls = n
	default:
		s.Nulls = -1
	}
	s.Rows = n
	return s
}

// Windows reports which windows of a row group may have a row that passes. Columns are by name; what is not known of one excludes
// nothing.
func Windows(expr *filter.Expr, columns map[string]*Column, rows, windowRows int64) []bool {
	may := make([]bool, (rows+windowRows-1)/windowRows)
	cuts := []int64{0, rows}
	for _, c := range columns {
		for _, p := range c.Pages {
			cuts = append(cuts, p.FirstRow)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := range len(cuts) - 1 {
		from, to := cuts[i], cuts[i+1]
		pass := expr.MayMatch(func(column string) (filter.Stats, bool) { return columns[column].stats(from, to-from, rows) })
		for w := from / windowRows; pass && w*windowRows < to; w++ {
			may[w] = true
		}
	}
	return may
}
