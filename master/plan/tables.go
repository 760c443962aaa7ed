package plan

import (
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// PruneTable returns the files of a table that may have a row which passes a program's filter, as far as the table
// tells of their values, numbered anew. There is always one: who reads it finds that it has none.
func PruneTable(program *pb.Program, of *table.Snapshot) ([]*pb.File, error) {
	excludes, err := newExtentFilter(program)
	if err != nil {
		return nil, err
	}
	var kept []*pb.File
	for i, f := range of.Files {
		if len(kept) == 0 && i == len(of.Files)-1 || !excludes.excludesTold(f) {
			kept = append(kept, numbered(f.File, len(kept)))
		}
	}
	return kept, nil
}

// excludesTold reports whether no row of a file passes.
func (f *extentFilter) excludesTold(file table.File) bool {
	if f.expr == nil || file.Stats == nil {
		return false
	}
	return !f.expr.MayMatch(func(column string) (filter.Stats, bool) {
		i, ok := f.byName[column]
		if !ok || f.sources[i].Key != nil {
			return filter.Stats{}, false
		}
		return file.Stats(spec.ColumnName(f.sources[i].GetPath(), f.sources[i].GetField()))
	})
}
