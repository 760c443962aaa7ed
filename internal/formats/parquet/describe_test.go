package parquet_test

import (
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/parquet"
)

// describe writes a file's columns and leaves, one column a line.
func describe(f *parquet.Footer) string {
	var b strings.Builder
	for i, c := range f.Schema.Columns {
		if c.Unsupported != "" {
			fmt.Fprintf(&b, "%s unsupported: %s\n", c.Name, c.Unsupported)
			continue
		}
		kind := c.Type.String()
		if c.Key != pb.Kind_KIND_UNSPECIFIED {
			kind = fmt.Sprintf("map<%s>%s", strings.ToLower(c.Key.String()), kind)
		}
		if c.Own != pb.Kind_KIND_UNSPECIFIED {
			kind += " of " + spec.KindName(c.Own)
		}
		if c.Shape != nil {
			kind += fmt.Sprint(" ", c.Shape)
		}
		fmt.Fprintf(&b, "%s %s:", c.Name, kind)
		from, to := f.LeavesOf(i)
		leaves := f.Leaves[from:to]
		if c.Key != pb.Kind_KIND_UNSPECIFIED {
			leaves = []parquet.Leaf{f.Leaves[from], f.Leaves[to-1]}
		}
		for _, l := range leaves {
			fmt.Fprintf(&b, " %s %d/%d row %d list %d",
				strings.Join(l.Path, "."), l.MaxDef, l.MaxRep, l.Logical.RowNullDef, l.Logical.ListDef)
			for _, level := range l.Logical.Nested[:max(1, l.MaxRep)-1] {
				fmt.Fprintf(&b, " null %d list %d", level.NullDef, level.ElementDef)
			}
		}
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}
