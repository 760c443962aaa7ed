package format

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Columns are those of a file.
type Columns struct {
	Schema spec.Schema
	byName map[string]int
	byID   map[identity]int // nil: the file gives no ids
}

// identity is what a file calls a column that has an id: a map of maps is two, with their fields.
type identity struct {
	id    int32
	field string
}

func identityOf(id int32, field []string) identity { return identity{id, strings.Join(field, ".")} }

// several is the place of ids that several columns have.
const several = -1

// Identify says which id the file gives each column; 0: none.
func (c *Columns) Identify(ids []int32) {
	for i, id := range ids {
		if id == 0 {
			continue
		}
		if c.byID == nil {
			c.byID = map[identity]int{}
		}
		key := identityOf(id, c.Schema.Columns[i].Field)
		if _, double := c.byID[key]; double {
			i = several
		}
		c.byID[key] = i
	}
}

// StoredPath is where files have a source's column, unless they give it an id.
func StoredPath(s *pb.Source) []string {
	if len(s.GetStored()) > 0 {
		return s.GetStored()
	}
	return s.GetPath()
}

// StoredPaths are all paths at which files without ids may have it, of which the first that a file has counts.
func StoredPaths(s *pb.Source) [][]string {
	all := [][]string{StoredPath(s)}
	for _, other := range s.GetOtherwise() {
		all = append(all, other.GetNames())
	}
	return all
}

// here is a source by the path of its column in this file, which tables may call otherwise. Where both have ids these
// alone count: false is for a column that the file does not have.
func (c *Columns) here(s *pb.Source) (*pb.Source, bool, error) {
	if s.GetId() == 0 && len(s.GetStored()) == 0 && len(s.GetOtherwise()) == 0 {
		return s, true, nil
	}
	paths := StoredPaths(s)
	path := paths[0]
	if s.GetId() != 0 && c.byID != nil {
		i, ok := c.byID[identityOf(s.GetId(), s.GetField())]
		switch {
		case !ok:
			return nil, false, nil
		case i == several:
			return nil, false, fmt.Errorf("several columns have its id, %d: the file is damaged", s.GetId())
		}
		path = c.Schema.Columns[i].Path
	} else if at := slices.IndexFunc(paths, func(p []string) bool { return c.has(p, s.GetField()) }); at > 0 {
		path = paths[at]
	}
	here := &pb.Source{
		Path: path, Key: s.Key, Type: s.GetType(), Meaning: s.GetMeaning(), Field: s.GetField(),
		Widened: s.GetWidened(),
	}
	return here, true, nil
}

// has reports whether the file has a column at a path, or nulls in its place.
func (c *Columns) has(path, field []string) bool {
	_, ok := c.Column(spec.ColumnName(path, field))
	return ok || c.Nulls(path)
}

// ColumnOf returns the index in Schema.Columns of the column that a source is in this file, unless that is nothing but
// Nulls.
func (c *Columns) ColumnOf(s *pb.Source) (int, bool) {
	here, ok, err := c.here(s)
	if err != nil || !ok {
		return 0, false
	}
	return c.Column(spec.ColumnName(here.GetPath(), here.GetField()))
}

// NewColumns returns columns that can be found by name. Those that share one become unsupported for that.
func NewColumns(columns []spec.Column) Columns {
	c := Columns{Schema: spec.Schema{Columns: columns}, byName: make(map[string]int, len(columns))}
	for i := range columns {
		first, double := c.byName[columns[i].Name]
		if !double {
			c.byName[columns[i].Name] = i
			continue
		}
		for _, which := range []int{i, first} {
			columns[which].Unsupported, columns[which].Untyped = "one of several columns of this name", false
		}
	}
	return c
}

// Column returns the index in Schema.Columns of the column of that name, unless that is nothing but Nulls.
func (c *Columns) Column(name string) (int, bool) {
	i, ok := c.byName[name]
	return i, ok && !isNulls(&c.Schema.Columns[i])
}

// Nulls reports whether what a path leads to is null in all rows, since the file has only nulls, without a type, there
// or in place of a struct on the way.
func (c *Columns) Nulls(path []string) bool {
	return slices.ContainsFunc(c.Schema.Columns, func(c spec.Column) bool {
		return isNulls(&c) && len(c.Path) <= len(path) && slices.Equal(c.Path, path[:len(c.Path)])
	})
}

func isNulls(c *spec.Column) bool { return c.Untyped && !c.Type.List }

// Why columns without a type cannot be features by themselves.
const (
	Untyped     = "without a type: whoever wrote it saw only nulls"
	UntypedList = "a list without a type: whoever wrote it saw no element"
)

// Microseconds is what timestamps mean that count these.
const Microseconds = "timestamp[us]"

// Unsigned is what integers mean that are the bits of uint64s.
const Unsigned = "uint64"

// Access is the way in which a source is read.
type Access uint8

// The ways.
const (
	Absent Access = iota // the file lacks the column: all rows have the source's default
	Nulls                // the file has nulls in its place
	Plain                // a column as it is
	MapKey               // the value of one key of a map, or a field of it
)

// Stored reports whether the file has values.
func (a Access) Stored() bool { return a >= Plain }

// Find says how a source is read, and gives the index of its column in the schema if values of it are stored. It fails
// if the file has something else in its place. A list without a type may have fewer levels than are read: its elements,
// which are all null, could be lists.
func (c *Columns) Find(of *pb.Source) (Access, int, error) {
	s, has, err := c.here(of)
	if err != nil || !has {
		return Absent, 0, err
	}
	name := spec.ColumnName(s.GetPath(), s.GetField())
	i, ok := c.Column(name)
	switch {
	case !ok && c.Nulls(s.GetPath()):
		return Nulls, 0, nil
	case !ok:
		return Absent, 0, c.clash(s)
	}
	column, want := &c.Schema.Columns[i], spec.TypeFromProto(s.GetType())
	isMap := column.Key != pb.Kind_KIND_UNSPECIFIED
	widened := s.GetWidened() && wasNarrower(column, want.Kind, s.GetMeaning())
	switch {
	case !slices.Equal(column.Path, s.GetPath()):
		return 0, 0, fmt.Errorf("column %s is at path %q here, not at %q", name, column.Path, s.GetPath())
	case column.Untyped && s.Key == nil && want.List && want.Nested >= column.Type.Nested:
		return Plain, i, nil
	case column.Unsupported != "":
		return 0, 0, fmt.Errorf("column %s cannot be read: %s", name, column.Unsupported)
	case s.Key != nil && !isMap:
		return 0, 0, fmt.Errorf("column %s is %s here, not a map", name, column.Type)
	case s.Key == nil && isMap:
		return 0, 0, fmt.Errorf("column %s is a map here, not %s", name, want)
	case !widened && column.Meaning != s.GetMeaning() && (!column.Int96 || s.GetMeaning() != Microseconds):
		return 0, 0, fmt.Errorf("column %s is %s here, not %s", name, meant(column.Type, column.Meaning),
			meant(want, s.GetMeaning()))
	case want.List != column.Type.List || want.Nested != column.Type.Nested ||
		!widened && !reads(column, want.Kind):
		return 0, 0, fmt.Errorf("column %s is %s here, which cannot be read as %s", name, shown(column, want), want)
	case isMap:
		return MapKey, i, nil
	}
	return Plain, i, nil
}

// reads reports whether a column can be read as a kind: as one that values widen to, or as the one that the file has.
func reads(c *spec.Column, kind pb.Kind) bool {
	if spec.Small(kind) {
		return c.Own == kind
	}
	return Widens(c.Type.Kind, kind)
}

// wasNarrower reports whether a column of a table may have had a type, as this file has it, before that was widened to
// what it is read as: 16 bits of 8, floats or decimals of whole numbers, and times of dates.
func wasNarrower(c *spec.Column, kind pb.Kind, meaning string) bool {
	unsigned := c.Own == pb.Kind_UINT8 || c.Own == pb.Kind_UINT16 || c.Own == pb.Kind_UINT32
	switch {
	case c.Date:
		return kind == pb.Kind_INT64 && meaning == Microseconds
	case c.Meaning != "" || c.Clock != "" || meaning != "" || unsigned:
		return false
	case kind == pb.Kind_INT16:
		return c.Own == pb.Kind_INT8
	}
	return kind == pb.Kind_FLOAT64 && (c.Type.Kind == pb.Kind_INT32 || c.Type.Kind == pb.Kind_INT64)
}

// shown is a column's type, for a message about another one: of the kind that the file has if that is what is wanted.
func shown(c *spec.Column, want spec.Type) spec.Type {
	t := c.Type
	if spec.Small(want.Kind) && c.Own != pb.Kind_KIND_UNSPECIFIED {
		t.Kind = c.Own
	}
	return t
}

// meant is what values stand for, or else their type.
func meant(t spec.Type, meaning string) string {
	if meaning != "" {
		return meaning
	}
	return t.String()
}

// clash finds a column that stands where a missing source's structs should be, or the other way round: were rows taken
// for nulls then, a filter would drop them in silence.
func (c *Columns) clash(s *pb.Source) error {
	for i := range c.Schema.Columns {
		column := &c.Schema.Columns[i]
		n := min(len(column.Path), len(s.GetPath()))
		if n == 0 || !slices.Equal(column.Path[:n], s.GetPath()[:n]) {
			continue
		}
		switch {
		case column.Unsupported != "":
			return fmt.Errorf("column %s cannot be read: %s", column.Name, column.Unsupported)
		case len(s.GetField()) > 0 && len(column.Path) == len(s.GetPath()):
			return fmt.Errorf("column %s is %s here, not a map of maps", column.Name, keyed(column))
		case len(column.Field) > 0 && len(column.Path) == len(s.GetPath()) && s.Key != nil:
			return fmt.Errorf("column %s is a map of maps here, not of %s", strings.Join(column.Path, "."),
				spec.TypeFromProto(s.GetType()))
		case n < len(column.Path):
			return fmt.Errorf("column %s is a struct here, with a field %s", strings.Join(s.GetPath(), "."),
				column.Name)
		case column.Key != pb.Kind_KIND_UNSPECIFIED:
			return fmt.Errorf("column %s is a map here, not a struct", column.Name)
		}
		return fmt.Errorf("column %s is %s here, not a struct", column.Name, column.Type)
	}
	return nil
}

// keyed is a column's type, or that it is a map.
func keyed(c *spec.Column) string {
	if c.Key != pb.Kind_KIND_UNSPECIFIED {
		return "a map of " + c.Type.String()
	}
	return c.Type.String()
}

// Widens reports whether values of kind from are, all and exactly, values of kind to.
func Widens(from, to pb.Kind) bool {
	return from == to ||
		from == pb.Kind_INT32 && to == pb.Kind_INT64 ||
		from == pb.Kind_FLOAT32 && to == pb.Kind_FLOAT64
}
