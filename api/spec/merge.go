package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// FileSchema is what one file offers.
type FileSchema struct {
	File   string
	Schema Schema
}

// Merge returns the union of the files' columns, in the order in which they come up. Where files differ, int32 widens
// to int64 and float32 to float64, and an untyped column has the type of the others; an inferred int64 beside an
// inferred float64 is one, too. Other differences, also in what integers stand for, are Problems, each with the column
// as its path and naming both files. A column that one file cannot offer is unsupported in all. Of columns of one name
// within a file the first counts.
func Merge(files []FileSchema) (Schema, error) {
	m := merger{byName: map[string]int{}}
	for _, f := range files {
		for _, c := range f.Schema.Columns {
			m.add(c, f.File)
		}
	}
	m.nest()
	if err := m.problems.err(); err != nil {
		return Schema{}, err
	}
	return Schema{Columns: m.columns}, nil
}

// nest finds columns that lie within others: a struct in one file is something else in another. Nulls without a type
// may be either.
func (m *merger) nest() {
	byPath := map[string]int{}
	for i, c := range m.columns {
		if !c.Untyped {
			byPath[pathKey(c.Path)] = i
		}
	}
	for i, c := range m.columns {
		if outer, ok := m.byName[strings.Join(c.Path, ".")]; ok && len(c.Field) > 0 && m.isAt(outer, c.Path) &&
			!isNulls(m.columns[outer]) {
			m.within(outer, i) // what is a map of maps in one file is something else in another
		}
		for n := 1; n < len(c.Path); n++ {
			outer, ok := byPath[pathKey(c.Path[:n])]
			if !ok || !m.isAt(outer, c.Path[:n]) || isHalf(m.columns[outer], c) {
				continue
			}
			// Else the map itself clashes, and says so.
			if m.columns[outer].Unsupported != "" || !m.origin[outer].conflict && !m.inMap(c) {
				m.within(outer, i)
			}
		}
	}
}

// inMap reports whether a column is a half of some file's map.
func (m *merger) inMap(c Column) bool {
	return slices.ContainsFunc(m.columns, func(of Column) bool {
		n := len(of.Path)
		return of.Key != pb.Kind_KIND_UNSPECIFIED && n < len(c.Path) && slices.Equal(of.Path, c.Path[:n]) &&
			isHalf(of, c)
	})
}

// isAt reports whether a column has a path, and not another one that is written alike.
func (m *merger) isAt(column int, path []string) bool {
	return slices.Equal(m.columns[column].Path, path)
}

// within says of a column that it lies within another one.
func (m *merger) within(outer, inner int) {
	o, at := &m.columns[outer], &m.origin[outer]
	switch {
	case o.Unsupported != "":
		c := &m.columns[inner]
		c.Unsupported = fmt.Sprintf("%s in %s, but %s is %s in %s", describe(*c), m.origin[inner].typed, o.Name,
			o.Unsupported, at.typed)
	case !at.conflict:
		at.conflict = true
		name, what := o.Name, describe(*o)
		if len(o.Field) > 0 {
			name, what = strings.Join(o.Path, "."), around(*o)
		}
		m.problems.add(name,
			"is %s in %s, but %s in %s; one dataset takes one type (%s)",
			what, at.typed, around(m.columns[inner]), m.origin[inner].typed, remedy(*o, m.columns[inner]))
	}
}

// isNulls reports whether a column has nothing but nulls, which may be those of any type.
func isNulls(c Column) bool { return c.Untyped && !c.Type.List }

// around is what has a column in it: a map of maps, or a struct.
func around(c Column) string {
	if len(c.Field) > 0 {
		return "a map of maps"
	}
	return "a struct with " + c.Name
}

// isHalf reports whether a column is the keys or the values of a map, or those of maps that are its values.
func isHalf(m, c Column) bool {
	side, below := c.Path[len(m.Path)], c.Path[len(m.Path)+1:]
	return m.Key != pb.Kind_KIND_UNSPECIFIED && c.Type.List && (side == "key" && len(below) == 0 ||
		side == "value" && len(below) == len(m.Field) && (len(below) == 0 || below[0] == "key" || below[0] == "value"))
}

// pathKey is a path as a map's key.
func pathKey(path []string) string { return strings.Join(path, "\x00") }

type merger struct {
	columns []Column
	byName  map[string]int
	// Of each column: the first file, the last one, and the one that gave it its type.
	origin   []origin
	problems Problems
}

type origin struct {
	last, typed string
	conflict    bool
}

func (m *merger) add(c Column, file string) {
	i, ok := m.byName[c.Name]
	if !ok {
		m.byName[c.Name] = len(m.columns)
		m.columns = append(m.columns, c)
		m.origin = append(m.origin, origin{last: file, typed: file})
		return
	}
	old, from := &m.columns[i], &m.origin[i]
	if from.last == file || from.conflict {
		return
	}
	from.last = file
	switch merged, ok := unite(*old, c); {
	case !ok:
		from.conflict = true
		m.problems.add(c.Name,
			"is %s in %s, but %s in %s; one dataset takes one type (%s)",
			describe(*old), from.typed, describe(c), file, remedy(*old, c))
	case merged.Unsupported != old.Unsupported && !old.Untyped:
		merged.Unsupported = fmt.Sprintf("%s in %s, but %s in %s", describe(*old), from.typed, describe(c), file)
		*old = merged
	case merged.Type != old.Type, merged.Untyped != old.Untyped:
		from.typed = file
		fallthrough
	default:
		*old = merged
	}
}

// remedy is what to do about columns that do not go together.
func remedy(a, b Column) string {
	if a.Inferred && b.Inferred {
		return "declare it, as in dataset.format.columns: {" + a.Name + ": float64}, or leave one of the files out"
	}
	return "leave one of the files out, or convert it"
}

// unite returns the column that holds the values of both.
func unite(a, b Column) (Column, bool) {
	if a.Untyped && (!b.Untyped || b.Type.List) {
		a, b = b, a
	}
	if b.Untyped {
		isList := a.Type.List && a.Key == pb.Kind_KIND_UNSPECIFIED
		fits := slices.Equal(a.Path, b.Path) && (!b.Type.List || isList && a.Type.Nested >= b.Type.Nested)
		return a, a.Unsupported != "" && !a.Untyped || fits
	}
	if a.Unsupported != "" {
		return a, true
	}
	if b.Unsupported != "" {
		a.Unsupported = b.Unsupported
		return a, true
	}
	kind, ok := wider(a.Type.Kind, b.Type.Kind)
	if !ok && a.Inferred && b.Inferred && isNumber(a.Type.Kind) && isNumber(b.Type.Kind) {
		kind, ok = pb.Kind_FLOAT64, true
	}
	if !ok || a.Meaning != b.Meaning || a.UnsignedKeys != b.UnsignedKeys || a.Type.List != b.Type.List ||
		a.Type.Nested != b.Type.Nested ||
		!slices.Equal(a.Path, b.Path) || !agree(a.Stands(), b.Stands()) {
		return a, false
	}
	key, ok := wider(a.Key, b.Key)
	if a.Own != b.Own {
		a.Own = pb.Kind_KIND_UNSPECIFIED
	}
	a.Text, a.Clock = a.Text && b.Text, cmp.Or(a.Clock, b.Clock)
	if !slices.Equal(a.Shape, b.Shape) {
		a.Shape = nil
	}
	a.Type.Kind, a.Key = kind, key
	return a, ok
}

// isNumber reports whether a kind is one of those that are inferred from numbers.
func isNumber(k pb.Kind) bool { return k == pb.Kind_INT64 || k == pb.Kind_FLOAT64 }

// agree reports whether two files can mean the same by a column's integers.
func agree(a, b string) bool { return a == b || a == "" || b == "" }

// wider is the kind that holds the values of both.
func wider(a, b pb.Kind) (pb.Kind, bool) {
	switch {
	case a == b:
		return a, true
	case a == pb.Kind_INT32 && b == pb.Kind_INT64, a == pb.Kind_INT64 && b == pb.Kind_INT32:
		return pb.Kind_INT64, true
	case a == pb.Kind_FLOAT32 && b == pb.Kind_FLOAT64, a == pb.Kind_FLOAT64 && b == pb.Kind_FLOAT32:
		return pb.Kind_FLOAT64, true
	}
	return a, false
}

// describe writes what a column is: its type, a map's keys and values, or why it is unsupported.
func describe(c Column) string {
	switch {
	case c.Unsupported != "":
		return c.Unsupported
	case len(c.Field) > 0:
		return fmt.Sprintf("%v of a map with %s keys", c.Type, c.KeyName())
	case c.Key != pb.Kind_KIND_UNSPECIFIED:
		return fmt.Sprintf("map<%s, %v>", c.KeyName(), c.Type)
	case c.Clock != "":
		return c.Meaning + ", " + c.Clock
	case c.Meaning != "":
		return c.Meaning
	case c.Date:
		return strings.Replace(c.Type.String(), KindName(c.Type.Kind), "date", 1)
	case len(c.Path) > 1:
		return fmt.Sprintf("%v at %s", c.Type, strings.Join(c.Path, "/"))
	}
	return c.Type.String()
}
