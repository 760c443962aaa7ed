package plan

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// extentFilter tells from statistics which extents cannot hold a row that passes a program's filter.
type extentFilter struct {
	expr    *filter.Expr // nil: every row passes
	sources []*pb.Source
	byName  map[string]int
	read    []int // sources that expr reads
}

func newExtentFilter(program *pb.Program) (*extentFilter, error) {
	f := &extentFilter{sources: program.GetSources(), byName: spec.SourcesByName(program.GetSources())}
	if program.GetFilter() == "" {
		return f, nil
	}
	expr, err := filter.Parse(program.GetFilter())
	if err != nil {
		return nil, fmt.Errorf("plan: filter %q: %w", program.GetFilter(), err)
	}
	f.expr = expr
	for _, name := range expr.Columns() {
		if i, ok := f.byName[name]; ok && !slices.Contains(f.read, i) {
			f.read = append(f.read, i)
		}
	}
	return f, nil
}

// excludes reports whether no row of an extent passes.
func (f *extentFilter) excludes(b format.Planned, extent int) bool {
	if f.expr == nil {
		return false
	}
	return !f.expr.MayMatch(func(column string) (filter.Stats, bool) {
		i, ok := f.byName[column]
		if !ok {
			return filter.Stats{}, false
		}
		return b.Stats(extent, i)
	})
}

// untrusted counts the statistics of an extent that the filter would use, if they did not contradict themselves.
func (f *extentFilter) untrusted(b format.Planned, extent int) (count int64, first string) {
	for _, i := range f.read {
		if why := b.Contradiction(extent, i); why != "" {
			if count++; count == 1 {
				first = why
			}
		}
	}
	return count, first
}
