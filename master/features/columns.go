package features

import (
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Columns are those that some files have, in the order of the first file that has each. A map is one column: its keys
// and its values, which can be read as lists, are not columns of their own here, nor are the two halves of its values
// where these are maps.
func Columns(files []format.File) *pb.FileColumns {
	out := &pb.FileColumns{Files: uint32(len(files))}
	byName := map[string]*pb.FileColumn{}
	for _, f := range files {
		out.Extents += uint32(len(f.Extents()))
		out.Rows += format.Rows(f)
		own := f.Columns().Schema.Columns
		maps := spec.MapsOf(own)
		for i := range own {
			c, bytes := &own[i], f.Stored(i)
			switch of := maps.Around(c.Path); {
			case of != nil && (len(of.Field) == 0 || len(c.Path) > len(of.Path)+1 || c.Path[len(of.Path)] != "key"):
				continue
			case of != nil:
				c, bytes = of, -bytes // of a map of maps: both halves of its values count the keys
			}
			name := c.Name
			if c.Key != pb.Kind_KIND_UNSPECIFIED {
				name = spec.ColumnName(c.Path, nil)
			}
			if name = valid(name); len(name) > maxName {
				continue
			}
			column, ok := byName[name]
			if !ok && len(out.GetColumns()) < MaxColumns {
				column = &pb.FileColumn{Name: name, Unsupported: valid(c.Unsupported)}
				out.Columns = append(out.Columns, column)
			}
			byName[name] = column
			switch {
			case column != nil:
				column.Bytes += bytes
			case !ok:
				out.More++
			}
		}
	}
	return out
}

// valid is a file's text as protobuf takes it.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
