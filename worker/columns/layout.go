package columns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
)

// layout says how the sources are found in a file.
type layout struct {
	leaves   []leafUse // what is decoded, in order of leaf and kind
	bindings []binding // one for each source
}

// leafUse is a leaf column and the kind that its values are made.
type leafUse struct {
	leaf int
	kind pb.Kind
}

// access is the way in which a source is read.
type access uint8

const (
	absent access = iota // the file lacks the column
	plain                // a column as it is
	mapKey               // the value of one key of a map
)

// binding is the access to a source; key and value number layout.leaves.
type binding struct {
	access
	key, value int
}

// resolve finds the sources in a file.
func resolve(f *footer.Footer, sources []*pb.Source) (*layout, error) {
	type found struct {
		access
		key, value leafUse
	}
	all := make([]found, len(sources))
	var uses []leafUse
	for i, s := range sources {
		column, err := find(f, s)
		if err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		if column < 0 {
			continue
		}
		from, to := f.LeavesOf(column)
		a := &all[i]
		a.access, a.value = plain, leafUse{to - 1, s.GetType().GetKind()}
		uses = append(uses, a.value)
		if s.Key != nil {
			a.access, a.key = mapKey, leafUse{from, f.Leaves[from].Kind}
			uses = append(uses, a.key)
		}
	}
	slices.SortFunc(uses, compareUses)
	uses = slices.Compact(uses)
	l := &layout{leaves: uses, bindings: make([]binding, len(sources))}
	for i, a := range all {
		b := &l.bindings[i]
		b.access = a.access
		if a.access != absent {
			b.value, _ = slices.BinarySearchFunc(uses, a.value, compareUses)
		}
		if a.access == mapKey {
			b.key, _ = slices.BinarySearchFunc(uses, a.key, compareUses)
		}
	}
	return l, nil
}

func compareUses(a, b leafUse) int {
	if a.leaf != b.leaf {
		return a.leaf - b.leaf
	}
	return int(a.kind - b.kind)
}

// find returns the index of a source's column in the file's schema, or -1 if the file has nothing of that name.
func find(f *footer.Footer, s *pb.Source) (int, error) {
	name := strings.Join(s.GetPath(), ".")
	i, ok := f.Column(name)
	if !ok {
		return -1, clash(f, s)
	}
	c := &f.Schema.Columns[i]
	if err := f.Locked(i); err != nil {
		return 0, err
	}
	if c.Unsupported != "" {
		return 0, fmt.Errorf("column %s cannot be read: %s", name, c.Unsupported)
	}
	isMap := c.Key != pb.Kind_KIND_UNSPECIFIED
	switch {
	case s.Key != nil && !isMap:
		return 0, fmt.Errorf("column %s is %s here, not a map", name, c.Type)
	case s.Key == nil && isMap:
		return 0, fmt.Errorf("column %s is a map here, not %s", name, spec.TypeFromProto(s.GetType()))
	}
	want := spec.TypeFromProto(s.GetType())
	if want.List != c.Type.List || !widens(c.Type.Kind, want.Kind) {
		return 0, fmt.Errorf("column %s is %s here, which cannot be read as %s", name, c.Type, want)
	}
	return i, nil
}

// clash finds a column that stands where a missing source's structs should be, or the other way round.
func clash(f *footer.Footer, s *pb.Source) error {
	for i := range f.Schema.Columns {
		c := &f.Schema.Columns[i]
		n := min(len(c.Path), len(s.GetPath()))
		if n == 0 || !slices.Equal(c.Path[:n], s.GetPath()[:n]) {
			continue
		}
		switch {
		case c.Unsupported != "":
			return fmt.Errorf("column %s cannot be read: %s", c.Name, c.Unsupported)
		case n < len(c.Path):
			return fmt.Errorf("column %s is a struct here, with a field %s", strings.Join(s.GetPath(), "."), c.Name)
		case c.Key != pb.Kind_KIND_UNSPECIFIED:
			return fmt.Errorf("column %s is a map here, not a struct", c.Name)
		}
		return fmt.Errorf("column %s is %s here, not a struct", c.Name, c.Type)
	}
	return nil
}

// widens reports whether values of kind from are, all and exactly, values of kind to.
func widens(from, to pb.Kind) bool {
	return from == to ||
		from == pb.Kind_INT32 && to == pb.Kind_INT64 ||
		from == pb.Kind_FLOAT32 && to == pb.Kind_FLOAT64
}

func nameOf(l *footer.Leaf) string { return strings.Join(l.Path, ".") }
