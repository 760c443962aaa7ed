package arrow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// mapped adds the columns of a map's keys, by which they are selected, and of all its keys and its values.
func (w *walk) mapped(f field, p place) error {
	sides, err := entriesOf(f)
	if err != nil {
		return err
	}
	if reason := mapProblem(sides); reason != "" {
		return w.unsupported(f, p, reason)
	}
	from := w.buffers
	at := place{outer: p.structs}
	w.entries(&at)
	keys, err := w.side(sides[0], at)
	if err != nil {
		return err
	}
	values, err := w.values(sides[1], at)
	if err != nil {
		return err
	}
	all := span{from, w.buffers}
	for _, v := range values {
		c := v.column(len(v.array.Lists) - 1)
		c.Key, c.Field, c.UnsignedKeys = keys.array.Kind, v.field, keys.meaning == format.Unsigned
		w.add(p.path, c, all, keys.array, v.array)
	}
	w.add(append(slices.Clip(p.path), "key"), keys.column(1), all, keys.array)
	for _, v := range values {
		path := slices.Concat(p.path, []string{"value"}, v.field)
		w.add(path, v.column(len(v.array.Lists)), all, v.array)
	}
	return nil
}

// mapSide is an array below the entries of a map.
type mapSide struct {
	array   *Array
	field   []string // of the values, if they are maps
	meaning string
}

// column describes it with so many levels of lists.
func (s *mapSide) column(lists int) spec.Column {
	t := spec.Type{Kind: s.array.Kind, List: lists > 0}
	if t.List {
		t.Nested = uint32(lists - 1)
	}
	return spec.Column{
		Type: t, Own: ownOf(s.array.Type), Meaning: s.meaning, Text: isText(s.array.Type), Date: isDate(s.array.Type),
		Clock: clockOf(s.array.Type),
	}
}

// side numbers the array of keys, or of values that are scalars.
func (w *walk) side(f field, at place) (mapSide, error) {
	a, meaning, _, err := w.array(f, at)
	return mapSide{array: a, meaning: meaning}, err
}

// values numbers the arrays of a map's values: one of scalars and of lists of them, and two of maps of these.
func (w *walk) values(f field, at place) ([]mapSide, error) {
	if _, ok := f.kind().(*arrow.MapType); ok {
		sides, err := entriesOf(f)
		if err != nil {
			return nil, err
		}
		w.entries(&at)
		var all []mapSide
		for i, name := range []string{"key", "value"} {
			of, err := w.values(sides[i], at)
			if err != nil {
				return nil, err
			}
			of[0].field = []string{name}
			all = append(all, of[0])
		}
		return all, nil
	}
	l := listOf(f.kind())
	if l == nil {
		side, err := w.side(f, at)
		return []mapSide{side}, err
	}
	children, err := f.children()
	if err != nil || len(children) != 1 {
		return nil, errors.Join(err, errFields)
	}
	w.level(&at, l)
	return w.values(children[0], at)
}

// level numbers a list, which is in those of the place.
func (w *walk) level(at *place, l *List) {
	l.Array, l.Around = w.arrays, at.structs
	if l.Offsets < 0 {
		l.Validity = w.take(1)
	} else {
		l.Validity = w.take(2)
		l.Offsets = l.Validity + 1
	}
	at.lists, at.structs = append(slices.Clip(at.lists), l), nil
}

// entries numbers a map, and the structs that it is a list of.
func (w *walk) entries(at *place) {
	w.level(at, &List{})
	at.structs = []int{w.take(1)}
}

// entriesOf are the fields of a map's keys and of its values.
func entriesOf(f field) ([]field, error) {
	entries, err := f.children()
	if err != nil || len(entries) != 1 {
		return nil, errors.Join(err, errFields)
	}
	sides, err := entries[0].children()
	if err != nil || len(sides) != 2 {
		return nil, errors.Join(err, errFields)
	}
	return sides, nil
}

// mapProblem says why the keys of a map of such keys and values select nothing, or nothing.
func mapProblem(sides []field) string {
	if reason := keyProblem(sides[0]); reason != "" {
		return "a map " + reason
	}
	m, ok := sides[1].kind().(*arrow.MapType)
	if !ok {
		return prefixed("a map whose ", valueProblem(sides[1].kind(), 1))
	}
	inner, err := entriesOf(sides[1])
	if err != nil {
		return "a map of maps without entries"
	}
	reason := keyProblem(inner[0])
	if reason == "" {
		reason = prefixed("whose ", valueProblem(m.ItemType(), 2))
	}
	return prefixed("a map of maps ", reason)
}

// keyProblem says why keys select nothing, or nothing.
func keyProblem(f field) string {
	kind, _, reason := kindOf(plain(f.kind()))
	switch {
	case reason != "":
		return "whose keys cannot be read: " + reason
	case kind != pb.Kind_INT32 && kind != pb.Kind_INT64 && kind != pb.Kind_BINARY:
		return fmt.Sprintf("with %s keys; keys may be integers or strings", strings.ToLower(kind.String()))
	}
	return ""
}

// valueProblem says why values of a type, within so many levels of lists, are no lists of scalars nor scalars, or
// nothing.
func valueProblem(t arrow.DataType, levels int) string {
	depth, what := 0, "values are "
	for t = storedAs(t); listOf(t) != nil; depth++ {
		t = storedAs(t.(arrow.ListLikeType).Elem())
		what = "values are lists of "
	}
	_, _, reason := kindOf(plain(t))
	switch _, isMap := t.(*arrow.MapType); {
	case isMap:
		return what + "maps"
	case t.ID() == arrow.STRUCT:
		return what + "structs"
	case reason != "":
		return "values cannot be read: " + reason
	case levels+depth > spec.MaxNested+1:
		return "values are lists that are nested too deep"
	}
	return ""
}

// plain is the type of a type's values, which a dictionary may hold.
func plain(t arrow.DataType) arrow.DataType {
	if d, ok := t.(*arrow.DictionaryType); ok {
		return storedAs(d.ValueType)
	}
	return t
}

func prefixed(by, text string) string {
	if text == "" {
		return ""
	}
	return by + text
}
