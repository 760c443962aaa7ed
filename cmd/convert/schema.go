package convert

import (
	"fmt"
	"path"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// local is the zone of times that have none: arrow's writer calls times of no zone UTC, and those of any zone but UTC
// local.
const local = "local"

// typer makes the types that columns of Parquet are written with again. It is asked for all columns in their order.
type typer struct {
	schema *schema.Schema
	leaf   int // number of the next leaf
}

// of returns a type with the nulls that any file may have, and with what arrow's reader does not say of times.
func (t *typer) of(typ arrow.DataType) arrow.DataType {
	switch typ := typ.(type) {
	case *arrow.ListType:
		return arrow.ListOf(t.of(typ.Elem()))
	case *arrow.MapType:
		key := t.of(typ.KeyType())
		return arrow.MapOf(key, t.of(typ.ItemType()))
	case *arrow.StructType:
		fields := make([]arrow.Field, len(typ.Fields()))
		for i, f := range typ.Fields() {
			fields[i] = arrow.Field{Name: f.Name, Type: t.of(f.Type), Nullable: true}
		}
		return arrow.StructOf(fields...)
	}
	logical, ok := t.schema.Column(t.leaf).LogicalType().(*schema.TimestampLogicalType)
	t.leaf++
	if !ok || logical.IsAdjustedToUTC() {
		return typ
	}
	return &arrow.TimestampType{Unit: typ.(*arrow.TimestampType).Unit, TimeZone: local}
}

// columnsOf are the columns of files that say themselves what they hold.
type columnsOf struct {
	arrow      *arrow.Schema // nil before the first file
	hexColumns []string      // names or globs of columns of text that become int64
	hex        []bool
}

func (c *columnsOf) schema() *arrow.Schema { return c.arrow }

// use takes the first file's columns, and checks that another one's are the same.
func (c *columnsOf) use(first string, fields []arrow.Field) error {
	if c.arrow != nil {
		return c.same(first, fields)
	}
	if err := c.useHex(fields); err != nil {
		return err
	}
	for i, f := range fields {
		if slices.ContainsFunc(fields[:i], func(g arrow.Field) bool { return g.Name == f.Name }) {
			return fmt.Errorf("two columns are named %s; rename or drop one", f.Name)
		}
		one := arrow.NewSchema(fields[i:i+1], nil)
		if _, err := pqarrow.ToParquet(one, nil, pqarrow.DefaultWriterProps()); err != nil {
			return fmt.Errorf("column %s is %v, which Parquet files are not written with; leave it out, or cast it: %w",
				f.Name, f.Type, err)
		}
		if c.hex[i] {
			fields[i].Type = arrow.PrimitiveTypes.Int64
		}
	}
	c.arrow = arrow.NewSchema(fields, nil)
	return nil
}

func (c *columnsOf) useHex(fields []arrow.Field) error {
	c.hex = make([]bool, len(fields))
	for _, pattern := range c.hexColumns {
		matched := false
		for i, f := range fields {
			ok, err := path.Match(pattern, f.Name)
			if err != nil {
				return fmt.Errorf("hex columns %s: %w", pattern, err)
			}
			if !ok {
				continue
			}
			matched, c.hex[i] = true, true
			if !isText(f.Type) {
				return fmt.Errorf("column %s is %v; only text can hold hexadecimal digits (%s)",
					f.Name, f.Type, pattern)
			}
		}
		if !matched {
			return fmt.Errorf("no column matches %s of the hex columns", pattern)
		}
	}
	return nil
}

func (c *columnsOf) same(first string, fields []arrow.Field) error {
	if len(fields) != len(c.arrow.Fields()) {
		return fmt.Errorf("%d columns, but %s has %d; convert files of other columns by themselves",
			len(fields), first, len(c.arrow.Fields()))
	}
	for i, f := range fields {
		want := c.arrow.Field(i)
		typ := f.Type
		if c.hex[i] && isText(typ) {
			typ = want.Type
		}
		if f.Name != want.Name || !sameType(typ, want.Type) {
			return fmt.Errorf(
				"column %d is %s, %v, but in %s it is %s, %v; convert files of other columns by themselves",
				i+1, f.Name, f.Type, first, want.Name, want.Type)
		}
	}
	return nil
}

// column gives values, the first of which is that row of its file, the type of their column.
func (c *columnsOf) column(i int, values arrow.ArrayData, row int64) (arrow.Array, error) {
	if c.hex[i] {
		return fromHex(array.MakeFromData(values), row)
	}
	d := withType(values, c.arrow.Field(i).Type)
	defer d.Release()
	return array.MakeFromData(d), nil
}

func isText(t arrow.DataType) bool { return t.ID() == arrow.STRING || t.ID() == arrow.BINARY }

// children are the types of what a type holds.
func children(t arrow.DataType) []arrow.Field {
	if nested, ok := t.(arrow.NestedType); ok {
		return nested.Fields()
	}
	return nil
}

// withType gives an array the type of its column: names of list elements may differ from file to file.
func withType(d arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	below := d.Children()
	if fields := children(t); len(fields) == len(below) {
		below = make([]arrow.ArrayData, len(fields))
		for i, f := range fields {
			below[i] = withType(d.Children()[i], f.Type)
			defer below[i].Release() // the array that is made keeps it
		}
	}
	return array.NewData(t, d.Len(), d.Buffers(), below, d.NullN(), d.Offset())
}

// sameType compares types without the names of what lists and maps hold.
func sameType(a, b arrow.DataType) bool {
	inA, inB := children(a), children(b)
	if a.ID() != b.ID() || len(inA) != len(inB) {
		return false
	}
	if len(inA) == 0 {
		return arrow.TypeEqual(a, b)
	}
	for i := range inA {
		named := a.ID() != arrow.STRUCT || inA[i].Name == inB[i].Name
		if !named || !sameType(inA[i].Type, inB[i].Type) {
			return false
		}
	}
	return true
}

// fromHex makes int64 of text.
func fromHex(values arrow.Array, row int64) (arrow.Array, error) {
	b := array.NewInt64Builder(memory.NewGoAllocator())
	for j := range values.Len() {
		if values.IsNull(j) {
			b.AppendNull()
			continue
		}
		var text []byte
		switch a := values.(type) {
		case *array.String:
			text = []byte(a.Value(j))
		case *array.Binary:
			text = a.Value(j)
		}
		if hexKind.appendTo(b, field{text: text}, nil) != nil {
			return nil, fmt.Errorf("row %d: %.40q is no hexadecimal number of at most 16 digits", row+int64(j), text)
		}
	}
	return b.NewInt64Array(), nil
}
