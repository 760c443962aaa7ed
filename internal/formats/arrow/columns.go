package arrow

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// list adds the columns of what a list holds: one, or one for each field of structs. The list is in others if these
// hold it directly.
func (w *walk) list(f field, p place, l *List) error {
	children, err := f.children()
	if err != nil || len(children) != 1 {
		return errors.Join(err, errFields)
	}
	added := len(w.spans)
	if len(p.lists) == 0 {
		p.outer, p.structs = p.structs, nil
	}
	w.level(&p, l)
	if err := w.element(children[0], p); err != nil {
		return err
	}
	for i := range w.spans[added:] {
		w.spans[added+i].from = l.Validity
	}
	return nil
}

// element adds the columns of what a list holds.
func (w *walk) element(f field, p place) error {
	switch f.kind().(type) {
	case *arrow.StructType:
		return w.structs(f, p, func(child field, p place) error { return w.element(child, p.enter(child.Name)) })
	case *arrow.MapType:
		return w.unsupported(f, p, "a list of maps")
	}
	l := listOf(f.kind())
	switch {
	case l == nil:
		return w.leaf(f, p)
	case len(p.structs) == 0 && len(p.lists)+nesting(f.kind()) <= spec.MaxNested+1:
		return w.list(f, p, l)
	}
	return w.unsupported(f, p, "a list of lists")
}

// nesting is how many levels of lists a type is; too many if they hold no scalars in the end.
func nesting(t arrow.DataType) (levels int) {
	for ; listOf(t) != nil; levels++ {
		t = storedAs(t.(arrow.ListLikeType).Elem())
	}
	if _, nested := t.(arrow.NestedType); nested {
		return math.MaxInt32
	}
	return levels
}

// leaf adds a column of scalars, or of lists of them.
func (w *walk) leaf(f field, p place) error {
	a, meaning, reason, err := w.array(f, p)
	if err != nil {
		return err
	}
	c := spec.Column{
		Type: spec.Type{Kind: a.Kind}, Own: ownOf(a.Type), Shape: p.shape, Meaning: meaning, Text: isText(a.Type),
		Date: isDate(a.Type), Clock: clockOf(a.Type), Unsupported: reason,
	}
	if levels := len(p.lists); levels > 0 {
		c.Type.List, c.Type.Nested = true, uint32(levels-1)
	}
	if a.Type.ID() == arrow.NULL {
		c.Untyped, c.Unsupported = true, format.Untyped
		if c.Type.List {
			c.Unsupported = format.UntypedList
		}
	}
	w.add(p.path, c, span{a.Buffers, w.buffers}, a)
	return nil
}

// array numbers the array of a field that has values of its own, and says as what they are read, or why they cannot be.
func (w *walk) array(f field, p place) (a *Array, meaning, reason string, err error) {
	a = &Array{Type: f.kind(), Structs: p.structs, Lists: p.lists}
	if len(p.lists) > 0 {
		a.Structs, a.Inner = p.outer, p.structs
	}
	if t, ok := a.Type.(*arrow.DictionaryType); ok {
		a.Type, a.Index = storedAs(t.ValueType), storedAs(t.IndexType)
		if a.ID, err = w.dictionary(f, t); err != nil {
			return nil, "", "", err
		}
	}
	a.Kind, meaning, reason = kindOf(a.Type)
	if nested, ok := a.Type.(arrow.NestedType); ok {
		reason = "of type " + nested.String()
	}
	from := w.shape
	if err := w.count(f); err != nil {
		return nil, "", "", err
	}
	a.Array, a.Buffers = from.arrays, from.buffers
	return a, meaning, reason, nil
}

// dictionary notes the shape of a field's dictionary, and returns its id.
func (w *walk) dictionary(f field, t *arrow.DictionaryType) (int64, error) {
	encoding, ok := f.table.Table(4)
	if !ok {
		return 0, errFields
	}
	id := encoding.Int64(0)
	values := &walk{layout: w.layout, v5: w.v5}
	if err := values.count(field{arrow.Field{Name: f.Name, Type: t.ValueType}, f.table}); err != nil {
		return 0, err
	}
	w.dictionaries[id] = values.shape
	return id, nil
}

// count numbers all that is at and below a field.
func (w *walk) count(f field) error {
	t := f.kind()
	if d, ok := t.(*arrow.DictionaryType); ok {
		w.take(2)
		_, err := w.dictionary(f, d)
		return err
	}
	w.take(buffersOf(t, w.v5))
	if id := t.ID(); id == arrow.STRING_VIEW || id == arrow.BINARY_VIEW {
		w.views = append(w.views, w.buffers)
	}
	children, err := f.children()
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := w.count(child); err != nil {
			return err
		}
	}
	return nil
}

// buffersOf is how many buffers an array has, but for its children's. Unions have no validity since version 5.
func buffersOf(t arrow.DataType, v5 bool) int {
	validity := 1
	if v5 {
		validity = 0
	}
	switch t.ID() {
	case arrow.NULL, arrow.RUN_END_ENCODED:
		return 0
	case arrow.STRUCT, arrow.FIXED_SIZE_LIST:
		return 1
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW:
		return 3
	case arrow.SPARSE_UNION:
		return 1 + validity
	case arrow.DENSE_UNION:
		return 2 + validity
	}
	return 2
}

// unsupported adds a column that no feature can be, and numbers what is below it.
func (w *walk) unsupported(f field, p place, reason string) error {
	from := w.buffers
	if err := w.count(f); err != nil {
		return err
	}
	w.add(p.path, spec.Column{Unsupported: reason}, span{from, w.buffers})
	return nil
}

// maxNames bounds the bytes of all columns' names: each has those of the structs around it.
const maxNames = 64 << 20

func (w *walk) add(path []string, c spec.Column, buffers span, arrays ...*Array) {
	for _, level := range path {
		w.names += len(level) + 1
	}
	if w.names > maxNames {
		w.err = fmt.Errorf("its columns' names have more than %d bytes, which is more than can be read", maxNames)
		return
	}
	c.Name, c.Path = spec.ColumnName(path, c.Field), path
	w.columns = append(w.columns, c)
	w.spans, w.arraysOf = append(w.spans, buffers), append(w.arraysOf, arrays)
}

// isText reports whether a type's byte strings are text; see spec.Column.
func isText(t arrow.DataType) bool { return t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING }

// clockOf is whose time timestamps are; see spec.Column.
func clockOf(t arrow.DataType) string {
	switch at, ok := t.(*arrow.TimestampType); {
	case !ok:
		return ""
	case at.TimeZone == "":
		return "local"
	}
	return "UTC"
}

// isDate reports whether a type's values are read as days; see spec.Column.
func isDate(t arrow.DataType) bool { return t.ID() == arrow.DATE32 || t.ID() == arrow.DATE64 }

// ownOf is the kind of a type's values where no op computes with it; see spec.Column.
func ownOf(t arrow.DataType) pb.Kind {
	return map[arrow.Type]pb.Kind{
		arrow.INT8: pb.Kind_INT8, arrow.INT16: pb.Kind_INT16, arrow.UINT8: pb.Kind_UINT8,
		arrow.UINT16: pb.Kind_UINT16, arrow.UINT32: pb.Kind_UINT32, arrow.FLOAT16: pb.Kind_FLOAT16,
	}[t.ID()]
}

// kindOf is the kind as which values of a type are read and what its integers stand for, or why they cannot be read: as
// Parquet files of the same table are.
func kindOf(t arrow.DataType) (kind pb.Kind, meaning, reason string) {
	switch t := t.(type) {
	case *arrow.NullType:
		return 0, "", format.Untyped
	case *arrow.Decimal128Type:
		if t.Precision <= 0 || t.Scale < 0 || t.Scale > t.Precision {
			return 0, "", fmt.Sprintf("a decimal of %d digits with scale %d", t.Precision, t.Scale)
		}
		return pb.Kind_FLOAT64, "", ""
	case *arrow.Time32Type:
		return pb.Kind_INT32, "time[ms]", ""
	case *arrow.Time64Type:
		return pb.Kind_INT64, "time[" + t.Unit.String() + "]", ""
	case *arrow.TimestampType:
		if t.Unit == arrow.Second {
			return pb.Kind_INT64, "timestamp[ms]", ""
		}
		return pb.Kind_INT64, "timestamp[" + t.Unit.String() + "]", ""
	}
	switch t.ID() {
	case arrow.BOOL:
		return pb.Kind_BOOL, "", ""
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.UINT8, arrow.UINT16, arrow.DATE32, arrow.DATE64:
		return pb.Kind_INT32, "", ""
	case arrow.INT64, arrow.UINT32, arrow.DURATION:
		return pb.Kind_INT64, "", ""
	case arrow.UINT64:
		return pb.Kind_INT64, format.Unsigned, ""
	case arrow.FLOAT16, arrow.FLOAT32:
		return pb.Kind_FLOAT32, "", ""
	case arrow.FLOAT64:
		return pb.Kind_FLOAT64, "", ""
	case arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.FIXED_SIZE_BINARY:
		return pb.Kind_BINARY, "", ""
	}
	return 0, "", "of type " + t.String()
}
