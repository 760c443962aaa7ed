package spec

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

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

// index finds the columns of a schema by name. Of columns of one name the first counts.
type index struct {
	columns []Column
	byName  map[string]int
	// names of selectable columns, in natural order
	names []string
}

func newIndex(s Schema) *index {
	x := &index{columns: s.Columns, byName: make(map[string]int, len(s.Columns))}
	for i, c := range s.Columns {
		if _, ok := x.byName[c.Name]; ok {
			continue
		}
		x.byName[c.Name] = i
		if c.selectable() {
			x.names = append(x.names, c.Name)
		}
	}
	slices.SortFunc(x.names, compareNatural)
	return x
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
			return nil, i, fmt.Errorf("%s is a map with %v keys; select one of its keys, such as %s.%s",
				name, Type{Kind: c.Key}, name, exampleKey(c.Key))
		}
		return &pb.Source{Name: name, Path: c.Path, Type: c.Type.Proto(), Meaning: c.Meaning}, i, nil
	}
	// Of maps within structs, and of text keys with dots, the longest column name wins.
	for dot := strings.LastIndexByte(name, '.'); dot > 0; dot = strings.LastIndexByte(name[:dot], '.') {
		i, ok := x.byName[name[:dot]]
		if !ok {
			continue
		}
		c, key := x.columns[i], name[dot+1:]
		switch {
		case c.Unsupported != "":
			return nil, i, fmt.Errorf("%s cannot be a feature: %s is %s", name, c.Name, c.Unsupported)
		case c.Key == pb.Kind_KIND_UNSPECIFIED:
			continue
		}
		if !validKey(c.Key, key) {
			return nil, i, fmt.Errorf("%s: the keys of map %s are %v, and %q is none",
				name, c.Name, Type{Kind: c.Key}, key)
		}
		return &pb.Source{Name: name, Path: c.Path, Key: &key, Type: c.Type.Proto(), Meaning: c.Meaning}, i, nil
	}
	return nil, -1, nil
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

// validKey reports whether text names a key, in the one way of writing it.
func validKey(k pb.Kind, text string) bool {
	if k == pb.Kind_BINARY {
		return text != ""
	}
	bits := 64
	if k == pb.Kind_INT32 {
		bits = 32
	}
	i, err := strconv.ParseInt(text, 10, bits)
	return err == nil && strconv.FormatInt(i, 10) == text
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
