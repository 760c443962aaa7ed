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
	nulls                // the file has nulls in its place
	plain                // a column as it is
	mapKey               // the value of one key of a map
)

// stored reports whether the file has values.
func (a access) stored() bool { return a >= plain }

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
		how, column, err := find(f, s)
		if err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		a := &all[i]
		if a.access = how; !how.stored() {
			continue
		}
		from, to := f.LeavesOf(column)
		a.value = leafUse{to - 1, s.GetType().GetKind()}
		uses = append(uses, a.value)
		if how == mapKey {
			a.key = leafUse{from, f.Leaves[from].Kind}
			uses = append(uses, a.key)
		}
	}
	slices.SortFunc(uses, compareUses)
	uses = slices.Compact(uses)
	l := &layout{leaves: uses, bindings: make([]binding, len(sources))}
	for i, a := range all {
		b := &l.bindings[i]
		b.access = a.access
		if a.stored() {
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

// find says how a source is read from a file, and gives the index of its column in the file's schema if values of it are stored.
func find(f *footer.Footer, s *pb.Source) (access, int, error) {
	name := strings.Join(s.GetPath(), ".")
	i, ok := f.Column(name)
	switch {
	case !ok && f.Nulls(s.GetPath()):
		return nulls, 0, nil
	case !ok:
		return absent, 0, clash(f, s)
	}
	if err := f.Locked(i); err != nil {
		return 0, 0, err
	}
	c, want := &f.Schema.Columns[i], spec.TypeFromProto(s.GetType())
	isMap := c.Key != pb.Kind_KIND_UNSPECIFIED
	switch {
	case c.Untyped && s.Key == nil && want.List:
		return plain, i, nil
	case c.Unsupported != "":
		return 0, 0, fmt.Errorf("column %s cannot be read: %s", name, c.Unsupported)
	case s.Key != nil && !isMap:
		return 0, 0, fmt.Errorf("column %s is %s here, not a map", name, c.Type)
	case s.Key == nil && isMap:
		return 0, 0, fmt.Errorf("column %s is a map here, not %s", name, want)
	case want.List != c.Type.List || !widens(c.Type.Kind, want.Kind):
		return 0, 0, fmt.Errorf("column %s is %s here, which cannot be read as %s", name, c.Type, want)
	case isMap:
		return mapKey, i, nil
	}
	return plain, i, nil
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
