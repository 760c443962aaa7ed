package spec

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

// Find returns the column of that name. It looks at each; resolving a spec builds an index instead.
func (s Schema) Find(name string) (Column, bool) {
	i := slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return s.Columns[i], true
}

// selectable reports whether globs see the column.
func (c Column) selectable() bool { return c.Unsupported == "" && c.Key == pb.Kind_KIND_UNSPECIFIED }

// ColumnName is the name of the column at a path, or of a field of the values of the map that is there.
func ColumnName(path, field []string) string {
	name := strings.Join(path, ".")
	if len(field) > 0 {
		name += ".*." + strings.Join(field, ".")
	}
	return name
}

// Maps are map columns by their paths: of a map of maps the first of its two.
type Maps map[string]*Column

// MapsOf finds the maps among columns.
func MapsOf(columns []Column) Maps {
	out := Maps{}
	for i := range columns {
		c := &columns[i]
		if path := ColumnName(c.Path, nil); c.Key != pb.Kind_KIND_UNSPECIFIED && out[path] == nil {
			out[path] = c
		}
	}
	return out
}

// Around is the map that a path leads into, such as that of its keys, or of its values; nil: none.
func (m Maps) Around(path []string) *Column {
	for n := len(path) - 1; n > 0 && len(m) > 0; n-- {
		if of := m[ColumnName(path[:n], nil)]; of != nil {
			return of
		}
	}
	return nil
}

// Feature is how a key of a map column is selected.
func (c Column) Feature(key string) string {
	return strings.Join(slices.Concat(c.Path, []string{key}, c.Field), ".")
}

// index finds the columns of a schema by name. Of columns of one name the first counts.
type index struct {
	columns []Column
	byName  map[string]int
	// maps are the map columns at a path: one, or one for each field of the values
	maps map[string][]int
	// names of selectable columns, in natural order
	names []string
}

func newIndex(s Schema) *index {
	x := &index{columns: s.Columns, byName: make(map[string]int, len(s.Columns)), maps: map[string][]int{}}
	for i, c := range s.Columns {
		if _, ok := x.byName[c.Name]; ok {
			continue
		}
		x.byName[c.Name] = i
		if c.selectable() {
			x.names = append(x.names, c.Name)
		}
		if c.Key != pb.Kind_KIND_UNSPECIFIED {
			path := strings.Join(c.Path, ".")
			x.maps[path] = append(x.maps[path], i)
		}
	}
	slices.SortFunc(x.names, natural.Compare)
	return x
}

// Names finds what names select of a file.
type Names struct{ index *index }

// NamesOf are the names of a file's columns.
func NamesOf(s Schema) Names { return Names{newIndex(s)} }

// Source is what a name selects: a column, or a key of a map column; nil if nothing has the name. The error says why
// what has it selects nothing.
func (n Names) Source(name string) (*pb.Source, error) {
	src, _, err := n.index.source(name)
	return src, err
}

// source describes what a name selects: a column, or a key of a map column. An exact name wins. The error says why
// the name selects nothing; it is nil, with a nil source, if nothing has the name.
func (x *index) source(name string) (*pb.Source, int, error) {
	if i, ok := x.byName[name]; ok {
		c := x.columns[i]
		switch {
		case c.Unsupported != "":
			return nil, i, fmt.Errorf("%s cannot be a feature: it is %s", name, c.Unsupported)
		case c.Key != pb.Kind_KIND_UNSPECIFIED:
			return nil, i, x.aMap(strings.Join(c.Path, "."), []int{i})
		}
		return &pb.Source{
			Name: name, Path: c.Path, Type: c.Type.Proto(), Meaning: c.Meaning, Partition: c.Partition,
		}, i, nil
	}
	if maps := x.maps[name]; len(maps) > 0 {
		return nil, maps[0], x.aMap(name, maps)
	}
	// Of maps within structs, and of text keys with dots, the longest column name wins.
	for dot := strings.LastIndexByte(name, '.'); dot > 0; dot = strings.LastIndexByte(name[:dot], '.') {
		if maps := x.maps[name[:dot]]; len(maps) > 0 {
			return x.key(name, name[:dot], maps)
		}
		if i, ok := x.byName[name[:dot]]; ok && x.columns[i].Unsupported != "" {
			c := x.columns[i]
			return nil, i, fmt.Errorf("%s cannot be a feature: %s is %s", name, c.Name, c.Unsupported)
		}
	}
	return nil, -1, nil
}

// key describes a key of a map, whose columns are given.
func (x *index) key(name, path string, maps []int) (*pb.Source, int, error) {
	for _, i := range maps {
		c, key := x.columns[i], name[len(path)+1:]
		if len(c.Field) > 0 {
			var ok bool
			if key, ok = strings.CutSuffix(key, "."+strings.Join(c.Field, ".")); !ok {
				continue
			}
		}
		switch {
		case c.Unsupported != "":
			return nil, i, fmt.Errorf("%s cannot be a feature: %s is %s", name, c.Name, c.Unsupported)
		case !c.hasKey(key):
			return nil, i, fmt.Errorf("%s: the keys of map %s are %s, and %q is none", name, path, c.KeyName(), key)
		}
		return &pb.Source{
			Name: name, Path: c.Path, Key: &key, Field: c.Field, Type: c.Type.Proto(), Meaning: c.Meaning,
		}, i, nil
	}
	return nil, maps[0], fmt.Errorf("%s: the values of map %s are maps; select %s", name, path,
		x.examples(name[len(path)+1:], maps))
}

// aMap says that a map is no feature, and what to select of it.
func (x *index) aMap(path string, maps []int) error {
	c := x.columns[maps[0]]
	if c.Unsupported != "" {
		return fmt.Errorf("%s cannot be a feature: it is %s", path, c.Unsupported)
	}
	return fmt.Errorf("%s is a map with %s keys; select one of its keys, such as %s",
		path, c.KeyName(), x.examples(exampleKey(c.Key), maps))
}

// examples are the features that a key of a map is: "scores.42.key or scores.42.value".
func (x *index) examples(key string, maps []int) string {
	var all []string
	for _, i := range maps {
		all = append(all, x.columns[i].Feature(key))
	}
	return strings.Join(all, " or ")
}

// SourcesByName are a program's sources as filters name them. A column that tensors have in a kind of its own is two
// sources of one name; filters mean the other one.
func SourcesByName(sources []*pb.Source) map[string]int {
	byName := make(map[string]int, len(sources))
	for i, s := range sources {
		if TypeFromProto(s.GetType()).Computes() {
			byName[s.GetName()] = i
		}
	}
	return byName
}

func exampleKey(k pb.Kind) string {
	if k == pb.Kind_BINARY {
		return "some_key"
	}
	return "42"
}

// KeyName is the type of a map's keys.
func (c Column) KeyName() string {
	if c.UnsignedKeys {
		return "uint64"
	}
	return Type{Kind: c.Key}.String()
}

// hasKey reports whether text names a key of a map, in the one way of writing it.
func (c Column) hasKey(text string) bool {
	switch {
	case c.Key == pb.Kind_BINARY:
		return text != ""
	case c.UnsignedKeys:
		i, err := strconv.ParseUint(text, 10, 64)
		return err == nil && strconv.FormatUint(i, 10) == text
	}
	bits := 64
	if c.Key == pb.Kind_INT32 {
		bits = 32
	}
	i, err := strconv.ParseInt(text, 10, bits)
	return err == nil && strconv.FormatInt(i, 10) == text
}

// IntKey is what a map has for a key that is an integer. Of uint64s these are the same bits.
func IntKey(text string) (int64, error) {
	if i, err := strconv.ParseUint(text, 10, 64); err == nil {
		return int64(i), nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// isGlob reports whether a name that no feature bears stands for several.
func isGlob(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// glob is a pattern of path.Match, except that no character is special to its stars.
type glob struct{ pattern, prefix string }

func newGlob(pattern string) (glob, error) {
	g := glob{pattern: strings.ReplaceAll(pattern, "/", "\x00")}
	g.prefix = g.pattern[:strings.IndexAny(g.pattern, `*?[\`)]
	_, err := path.Match(g.pattern, "")
	return g, err
}

func (g glob) match(name string) bool {
	if strings.Contains(name, "/") {
		name = strings.ReplaceAll(name, "/", "\x00")
	}
	if !strings.HasPrefix(name, g.prefix) {
		return false
	}
	ok, err := path.Match(g.pattern, name)
	return ok && err == nil
}

// filtered yields the names that match.
func (g glob) filtered(names iter.Seq[string]) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range names {
			if g.match(name) && !yield(name) {
				return
			}
		}
	}
}
