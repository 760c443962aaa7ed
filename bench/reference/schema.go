package reference

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// column is a selectable column of a file: a top-level one, a struct's field, or a map (whose keys are selectable).
type column struct {
	name   string
	path   []string // of names in the Arrow schema, through structs
	typ    spec.Type
	isMap  bool  // typ is that of one key's value
	leaves []int // of the Parquet schema
	// part of a map column: all its keys, or all its values.
	part mapPart
	uri  string // of the first file that has it
}

// supported reports whether the column can be a feature.
func (c column) supported() bool { return c.typ.Kind != pb.Kind_KIND_UNSPECIFIED }

type mapPart int

const (
	wholeColumn mapPart = iota
	mapKeys
	mapValues
)

// columnsOf lists what can be selected from a file.
func columnsOf(f *parquetFile) []column {
	var out []column
	for i := range f.reader.Manifest.Fields {
		out = appendColumns(out, &f.reader.Manifest.Fields[i], nil)
	}
	return out
}

func appendColumns(out []column, field *pqarrow.SchemaField, parents []string) []column {
	path := append(slices.Clone(parents), field.Field.Name)
	if _, ok := field.Field.Type.(*arrow.StructType); ok {
		for i := range field.Children {
			out = appendColumns(out, &field.Children[i], path)
		}
		return out
	}
	c := column{path: path, leaves: appendLeaves(nil, field)}
	for i, p := range path {
		if i > 0 {
			c.name += "."
		}
		c.name += p
	}
	if m, ok := field.Field.Type.(*arrow.MapType); ok {
		return appendMap(out, c, m)
	}
	c.typ = typeOf(field.Field.Type)
	return append(out, c)
}

// appendMap adds a map column and its keys and values as columns of their own.
func appendMap(out []column, c column, m *arrow.MapType) []column {
	key, value := kindOf(m.KeyType()), kindOf(m.ItemType())
	if value == pb.Kind_KIND_UNSPECIFIED || key != pb.Kind_INT32 && key != pb.Kind_INT64 && key != pb.Kind_BINARY {
		return append(out, c)
	}
	whole, keys, values := c, c, c
	whole.isMap, whole.typ = true, spec.Type{Kind: value}
	keys.name, keys.part, keys.typ = c.name+".key", mapKeys, spec.Type{Kind: key, List: true}
	values.name, values.part, values.typ = c.name+".value", mapValues, spec.Type{Kind: value, List: true}
	return append(out, whole, keys, values)
}

func appendLeaves(out []int, field *pqarrow.SchemaField) []int {
	if len(field.Children) == 0 { // IsLeaf is true of lists too
		return append(out, field.ColIndex)
	}
	for i := range field.Children {
		out = appendLeaves(out, &field.Children[i])
	}
	return out
}

func typeOf(t arrow.DataType) spec.Type {
	if l, ok := t.(arrow.ListLikeType); ok {
		return spec.Type{Kind: kindOf(l.Elem()), List: true}
	}
	return spec.Type{Kind: kindOf(t)}
}

// kindOf is unspecified for types that no feature has.
func kindOf(t arrow.DataType) pb.Kind {
	switch t.ID() {
	case arrow.BOOL:
		return pb.Kind_BOOL
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.UINT8, arrow.UINT16, arrow.DATE32, arrow.TIME32:
		return pb.Kind_INT32
	case arrow.INT64, arrow.UINT32, arrow.UINT64, arrow.TIMESTAMP, arrow.TIME64, arrow.DATE64, arrow.DURATION:
		return pb.Kind_INT64
	case arrow.FLOAT16, arrow.FLOAT32:
		return pb.Kind_FLOAT32
	case arrow.FLOAT64, arrow.DECIMAL128, arrow.DECIMAL256:
		return pb.Kind_FLOAT64
	case arrow.BINARY, arrow.STRING, arrow.LARGE_BINARY, arrow.LARGE_STRING, arrow.FIXED_SIZE_BINARY:
		return pb.Kind_BINARY
	case arrow.DICTIONARY:
		return kindOf(t.(*arrow.DictionaryType).ValueType)
	}
	return pb.Kind_KIND_UNSPECIFIED
}

// union gathers the columns of all files by name.
type union map[string]column

// add adds a file's columns. Where files differ, int32 widens to int64 and float32 to float64.
func (u union) add(uri string, columns []column) error {
	for _, c := range columns {
		before, ok := u[c.name]
		if !ok {
			c.uri = uri
			u[c.name] = c
			continue
		}
		if !before.supported() || !c.supported() {
			before.typ.Kind = pb.Kind_KIND_UNSPECIFIED
			u[c.name] = before
			continue
		}
		kind, ok := wider(before.typ.Kind, c.typ.Kind)
		if !ok || before.typ.List != c.typ.List || before.isMap != c.isMap {
			return fmt.Errorf("column %s is %v in %s but %v in %s", c.name, before.typ, before.uri, c.typ, uri)
		}
		before.typ.Kind = kind
		u[c.name] = before
	}
	return nil
}

func wider(a, b pb.Kind) (pb.Kind, bool) {
	for _, pair := range [][2]pb.Kind{{pb.Kind_INT32, pb.Kind_INT64}, {pb.Kind_FLOAT32, pb.Kind_FLOAT64}} {
		if a == pair[0] && b == pair[1] || a == pair[1] && b == pair[0] {
			return pair[1], true
		}
	}
	return a, a == b
}
