package tables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// columns are those of a table, as files with its types would have them.
func columns(s *table.Snapshot) (spec.Schema, error) {
	all, err := formats.ColumnsOf(s.Schema)
	if err != nil {
		return spec.Schema{}, fmt.Errorf("its schema: %w", err)
	}
	for i, c := range all.Columns {
		all.Columns[i].Partition = slices.Contains(s.Partitions, c.Name)
	}
	return all, nil
}

// Place says of sources where files of the table have them: by id, or by another name.
func (t *Table) Place(sources []*pb.Source) {
	for _, s := range sources {
		at := place{paths: [][]string{nil}}
		fields := t.Schema.Fields()
		for _, name := range s.GetPath() {
			i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == name })
			if i < 0 {
				break // it is none of the table's
			}
			at.enter(fields[i])
			fields = children(fields[i].Type)
		}
		if s.Id, s.Widened = at.id, at.widened; at.renamed {
			s.Stored = at.paths[0]
		}
		for _, path := range at.paths[1:] {
			s.Otherwise = append(s.Otherwise, &pb.Path{Names: path})
		}
	}
}

// place is where a field is in files.
type place struct {
	id      int32
	paths   [][]string // by which files may have it, the likeliest first
	renamed bool
	widened bool
}

// maxPaths bounds the paths of a field that has several names on several levels.
const maxPaths = 16

func (p *place) enter(f arrow.Field) {
	stored, ok := f.Metadata.GetValue(table.StoredName)
	if !ok {
		stored = f.Name
	}
	names := []string{stored}
	if others, ok := f.Metadata.GetValue(table.OtherNames); ok {
		names = append(names, strings.FieldsFunc(others, func(r rune) bool { return r == 0 })...)
	}
	var longer [][]string
	for _, name := range names {
		for _, path := range p.paths {
			if len(longer) < maxPaths {
				longer = append(longer, append(slices.Clone(path), name))
			}
		}
	}
	p.paths = longer
	p.renamed = p.renamed || stored != f.Name
	p.widened = p.widened || f.Metadata.FindKey(table.Widened) >= 0
	p.id = 0
	if text, ok := f.Metadata.GetValue(table.FieldID); ok {
		if id, err := strconv.ParseInt(text, 10, 32); err == nil {
			p.id = int32(id)
		}
	}
}

// children are the fields of a struct, also of one that lists hold: paths of sources leave lists' inner levels out.
func children(t arrow.DataType) []arrow.Field {
	switch t := t.(type) {
	case *arrow.StructType:
		return t.Fields()
	case arrow.ListLikeType:
		return children(t.Elem())
	}
	return nil
}
