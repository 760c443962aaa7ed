package plan

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
)

// rowGroupFilter tells from statistics which row groups cannot hold a row that passes a program's filter.
type rowGroupFilter struct {
	expr    *filter.Expr // nil: every row passes
	sources []*pb.Source
	byName  map[string]int
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
		case len(leaves) == 0:
			return absentStats(s, rg.Rows)
		case s.Key != nil || s.GetType().GetList():
			// Statistics of a map are of all keys together, those of lists count elements.
			return filter.Stats{}, false
		default:
			return chunkStats(s.GetType().GetKind(), &foot.Leaves[leaves[0]], &rg.Chunks[leaves[0]], rg.Rows)
		}
	})
}

// chunkStats reads the statistics of a scalar column that the program reads as kind.
func chunkStats(kind pb.Kind, l *footer.Leaf, c *footer.Chunk, rows int64) (filter.Stats, bool) {
	s := filter.Stats{Nulls: c.Stats.Nulls, Rows: rows}
	if c.Stats.Min == nil || c.Stats.Max == nil {
		return s, true
	}
	low, errLow := filter.FromBytes(l.Kind, c.Stats.Min)
	high, errHigh := filter.FromBytes(l.Kind, c.Stats.Max)
	if l.Kind == pb.Kind_FLOAT32 && kind == pb.Kind_FLOAT64 {
		// Widened values are not compared as float32, to which literals would be rounded.
		low, high = filter.Float64(low.Float), filter.Float64(high.Float)
	}
	if errLow == nil && errHigh == nil {
		s.Min, s.Max, s.HasMinMax = low, high, true
	}
	return s, true
}

// absentStats describes a source that a file lacks: all rows have its default, or null.
func absentStats(s *pb.Source, rows int64) (filter.Stats, bool) {
	if s.GetDefault().GetKind() == nil {
		return filter.Stats{Nulls: rows, Rows: rows}, true
	}
	v, ok := defaultValue(s)
	if !ok {
		return filter.Stats{}, false
	}
	return filter.Stats{Min: v, Max: v, HasMinMax: true, Rows: rows}, true
}

// defaultValue reads a scalar source's default as the column's kind. What does not fit exactly is left to the
// worker, who then reads the rows.
func defaultValue(s *pb.Source) (filter.Value, bool) {
	kind := s.GetType().GetKind()
	switch d := s.GetDefault().GetKind().(type) {
	case *pb.Value_Int:
		switch kind {
		case pb.Kind_INT32, pb.Kind_INT64:
			return filter.Int(d.Int), true
		case pb.Kind_FLOAT32:
			return filter.Float32(float32(d.Int)), -1<<24 <= d.Int && d.Int <= 1<<24
		case pb.Kind_FLOAT64:
			return filter.Float64(float64(d.Int)), -1<<53 <= d.Int && d.Int <= 1<<53
		}
	case *pb.Value_Float:
		switch kind {
		case pb.Kind_FLOAT32:
			return filter.Float32(float32(d.Float)), d.Float == d.Float
		case pb.Kind_FLOAT64:
			return filter.Float64(d.Float), d.Float == d.Float
		}
	case *pb.Value_Text:
		return filter.Text(d.Text), kind == pb.Kind_BINARY
	case *pb.Value_Bool:
		return filter.Bool(d.Bool), kind == pb.Kind_BOOL
	}
	return filter.Value{}, false
}
