package features

import (
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Columns are those that some files have, in the order of the first file that has each. The two halves of a map, which
// can be read as lists, are not columns of their own here.
func Columns(files []format.File) *pb.FileColumns {
	out := &pb.FileColumns{Files: uint32(len(files))}
	byName := map[string]*pb.FileColumn{}
	for _, f := range files {
		out.Extents += uint32(len(f.Extents()))
		out.Rows += format.Rows(f)
		schema := f.Columns().Schema
		for i := range schema.Columns {
			c := &schema.Columns[i]
			if half(f.Columns(), c.Name) || len(c.Name) > maxName {
				continue
			}
			column, ok := byName[c.Name]
			if !ok && len(out.GetColumns()) < MaxColumns {
				column = &pb.FileColumn{Name: c.Name, Unsupported: c.Unsupported}
				out.Columns = append(out.Columns, column)
			}
			byName[c.Name] = column
			switch {
			case column != nil:
				column.Bytes += f.Stored(i)
			case !ok:
				out.More++
			}
		}
	}
	return out
}

// half reports whether a column is the keys or the values of a map.
func half(columns *format.Columns, name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	i, ok := columns.Column(name[:dot])
	return ok && columns.Schema.Columns[i].Key != pb.Kind_KIND_UNSPECIFIED
}
