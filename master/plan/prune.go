package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/prune"
)

// rowGroupFilter tells from statistics which row groups cannot hold a row that passes a program's filter.
type rowGroupFilter struct {
	expr    *filter.Expr // nil: every row passes
	sources []*pb.Source
	byName  map[string]int
	read    []int // sources that expr reads
}

func newRowGroupFilter(program *pb.Program) (*rowGroupFilter, error) {
	f := &rowGroupFilter{sources: program.GetSources(), byName: make(map[string]int)}
	if program.GetFilter() == "" {
		return f, nil
	}
	expr, err := filter.Parse(program.GetFilter())
	if err != nil {
		return nil, fmt.Errorf("plan: filter %q: %w", program.GetFilter(), err)
	}
	f.expr = expr
	for i, s := range f.sources {
		f.byName[s.GetName()] = i
	}
	for _, name := range expr.Columns() {
		if i, ok := f.byName[name]; ok && !slices.Contains(f.read, i) {
			f.read = append(f.read, i)
		}
	}
	return f, nil
}

// excludes reports whether no row of the row group passes.
func (f *rowGroupFilter) excludes(foot *footer.Footer, loc located, rg *footer.RowGroup) bool {
	if f.expr == nil {
		return false
	}
	return !f.expr.MayMatch(func(column string) (filter.Stats, bool) {
		i, ok := f.byName[column]
		if !ok {
			return filter.Stats{}, false
		}
		s := f.sources[i]
		switch leaves := loc.sources[i]; {
		case loc.nulls[i]:
			return prune.Nulls(rg.Rows), true
		case len(leaves) == 0:
			return prune.Absent(s, rg.Rows)
		case s.Key != nil || s.GetType().GetList():
			// Statistics of a map are of all keys together, those of lists count elements.
			return filter.Stats{}, false
		default:
			return prune.Stats(s, &foot.Leaves[leaves[0]], &rg.Chunks[leaves[0]].Stats, rg.Rows), true
		}
	})
}

// untrusted says which column chunks of a row group the filter would use the statistics of, if these did not contradict themselves.
func (f *rowGroupFilter) untrusted(foot *footer.Footer, loc located, rg *footer.RowGroup) (chunks int64, first string) {
	for _, i := range f.read {
		s, leaves := f.sources[i], loc.sources[i]
		if len(leaves) == 0 || s.Key != nil || s.GetType().GetList() {
			continue
		}
		if why := rg.Chunks[leaves[0]].Stats.Contradiction; why != "" {
			if chunks++; chunks == 1 {
				first = fmt.Sprintf("column %s: %s", strings.Join(foot.Leaves[leaves[0]].Path, "."), why)
			}
		}
	}
	return chunks, first
}
