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
}

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
	var ok bool
	if c.typ, ok = typeOf(field.Field.Type); ok {
		out = append(out, c)
	}
	return out
}

// appendMap adds a map column and its keys and values as columns of their own.
func appendMap(out []column, c column, m *arrow.MapType) []column {
	key, ok1 := kindOf(m.KeyType())
	value, ok2 := kindOf(m.ItemType())
	if !ok1 || !ok2 {
		return out
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

func typeOf(t arrow.DataType) (spec.Type, bool) {
	if l, ok := t.(arrow.ListLikeType); ok {
		k, ok := kindOf(l.Elem())
		return spec.Type{Kind: k, List: true}, ok
	}
	k, ok := kindOf(t)
	return spec.Type{Kind: k}, ok
}

func kindOf(t arrow.DataType) (pb.Kind, bool) {
	switch t.ID() {
	case arrow.BOOL:
		return pb.Kind_BOOL, true
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.UINT8, arrow.UINT16, arrow.DATE32, arrow.TIME32:
		return pb.Kind_INT32, true
	case arrow.INT64, arrow.UINT32, arrow.UINT64, arrow.TIMESTAMP, arrow.TIME64, arrow.DATE64, arrow.DURATION:
		return pb.Kind_INT64, true
	case arrow.FLOAT16, arrow.FLOAT32:
		return pb.Kind_FLOAT32, true
	case arrow.FLOAT64, arrow.DECIMAL128, arrow.DECIMAL256:
		return pb.Kind_FLOAT64, true
	case arrow.BINARY, arrow.STRING, arrow.LARGE_BINARY, arrow.LARGE_STRING, arrow.FIXED_SIZE_BINARY:
		return pb.Kind_BINARY, true
	case arrow.DICTIONARY:
		return kindOf(t.(*arrow.DictionaryType).ValueType)
	}
	return pb.Kind_KIND_UNSPECIFIED, false
}

// union merges a file's columns into those of the files before it.
func union(all map[string]column, from map[string]string, uri string, columns []column) error {
	for _, c := range columns {
		before, ok := all[c.name]
		if ok && (before.typ != c.typ || before.isMap != c.isMap) {
			return fmt.Errorf("column %s is %v in %s but %v in %s", c.name, before.typ, from[c.name], c.typ, uri)
		}
		if !ok {
			all[c.name], from[c.name] = c, uri
		}
	}
	return nil
}
