package apply

import (
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// arrowSchema has the columns of a schema as rows of JSON have them. What cannot be a feature is left out. Lists of
// structs are structs of lists, since a schema does not tell them apart.
func arrowSchema(s *spec.Schema) *arrow.Schema {
	columns := slices.DeleteFunc(slices.Clone(s.Columns), func(c spec.Column) bool { return c.Unsupported != "" })
	maps, root := spec.MapsOf(columns), &level{}
	for _, c := range columns {
		switch {
		case maps.Around(c.Path) != nil:
		case c.Key == pb.Kind_KIND_UNSPECIFIED:
			root.add(c.Path, typeOf(c))
		case len(c.Field) == 0 || c.Field[0] == "key": // once, of maps of maps, which are two columns
			root.add(c.Path, arrow.MapOf(keysOf(c), entryOf(s, c)))
		}
	}
	return arrow.NewSchema(root.fields(), nil)
}

// entryOf is the type of what a map column has for a key.
func entryOf(s *spec.Schema, c spec.Column) arrow.DataType {
	if len(c.Field) == 0 {
		return typeOf(c)
	}
	side := func(field string) spec.Column {
		c, _ := s.Find(spec.ColumnName(c.Path, []string{field}))
		c.Type.List, c.Type.Nested = c.Type.Nested > 0, max(c.Type.Nested, 1)-1
		return c
	}
	return arrow.MapOf(typeOf(side("key")), typeOf(side("value")))
}

// keysOf is the type of a map's keys.
func keysOf(c spec.Column) arrow.DataType {
	if c.UnsignedKeys {
		return arrow.PrimitiveTypes.Uint64
	}
	return valueOf(c.Key, spec.Column{Text: true})
}

// level is a schema, or a struct of one.
type level struct {
	names []string
	types []arrow.DataType // nil: a struct
	below []*level
}

func (l *level) add(path []string, t arrow.DataType) {
	if len(path) == 1 {
		l.names, l.types, l.below = append(l.names, path[0]), append(l.types, t), append(l.below, nil)
		return
	}
	for i, name := range l.names {
		if name == path[0] && l.below[i] != nil {
			l.below[i].add(path[1:], t)
			return
		}
	}
	inner := &level{}
	inner.add(path[1:], t)
	l.names, l.types, l.below = append(l.names, path[0]), append(l.types, nil), append(l.below, inner)
}

func (l *level) fields() []arrow.Field {
	out := make([]arrow.Field, len(l.names))
	for i, name := range l.names {
		out[i] = arrow.Field{Name: name, Type: l.types[i], Nullable: true}
		if l.below[i] != nil {
			out[i].Type = arrow.StructOf(l.below[i].fields()...)
		}
	}
	return out
}

// typeOf is the type of a column; of a map, that of one key's value.
func typeOf(c spec.Column) arrow.DataType {
	kind := c.Type.Kind
	if c.Own != pb.Kind_KIND_UNSPECIFIED {
		kind = c.Own
	}
	t := valueOf(kind, c)
	if c.Type.List {
		for range c.Type.Nested + 1 {
			t = arrow.ListOf(t)
		}
	}
	return t
}

// valueOf is the type of values of a kind that stand for what a column's do.
func valueOf(kind pb.Kind, c spec.Column) arrow.DataType {
	switch meaning := c.Meaning; {
	case c.Date:
		return arrow.FixedWidthTypes.Date32
	case meaning == "uint64":
		return arrow.PrimitiveTypes.Uint64
	case strings.HasPrefix(meaning, "timestamp["):
		return &arrow.TimestampType{Unit: unitOf(meaning)}
	case meaning == "time[ms]":
		return arrow.FixedWidthTypes.Time32ms
	case strings.HasPrefix(meaning, "time["):
		return &arrow.Time64Type{Unit: unitOf(meaning)}
	}
	return map[pb.Kind]arrow.DataType{
		pb.Kind_BOOL: arrow.FixedWidthTypes.Boolean,
		pb.Kind_INT8: arrow.PrimitiveTypes.Int8, pb.Kind_INT16: arrow.PrimitiveTypes.Int16,
		pb.Kind_INT32: arrow.PrimitiveTypes.Int32, pb.Kind_INT64: arrow.PrimitiveTypes.Int64,
		pb.Kind_UINT8: arrow.PrimitiveTypes.Uint8, pb.Kind_UINT16: arrow.PrimitiveTypes.Uint16,
		pb.Kind_UINT32: arrow.PrimitiveTypes.Uint32, pb.Kind_FLOAT16: arrow.FixedWidthTypes.Float16,
		pb.Kind_FLOAT32: arrow.PrimitiveTypes.Float32, pb.Kind_FLOAT64: arrow.PrimitiveTypes.Float64,
		pb.Kind_BINARY: map[bool]arrow.DataType{
			true: arrow.BinaryTypes.String, false: arrow.BinaryTypes.Binary,
		}[c.Text],
	}[kind]
}

// unitOf is that of a meaning such as "timestamp[ms]".
func unitOf(meaning string) arrow.TimeUnit {
	switch {
	case strings.Contains(meaning, "[ms"):
		return arrow.Millisecond
	case strings.Contains(meaning, "[us"):
		return arrow.Microsecond
	}
	return arrow.Nanosecond
}
