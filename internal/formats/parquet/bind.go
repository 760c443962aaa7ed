package parquet

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Bound is a file in terms of the sources that are read of it.
type Bound struct {
	*Footer
	Sources  []*pb.Source
	Uses     []Use     // what is decoded, in order of leaf and kind
	Bindings []Binding // one for each source

	leaves   []int   // of Uses, each once
	bySource [][]int // leaves of each source, all of its map's among them
}

// Use is a leaf column and the kind that its values are made.
type Use struct {
	Leaf   int
	Kind   pb.Kind
	Micros bool // timestamps of 96 bits are made microseconds, not nanoseconds, and so are days
}

// Binding is the access to a source; Key and Value number Bound.Uses.
type Binding struct {
	format.Access
	Key, Value int
}

// Bind finds sources in the file.
func (f *Footer) Bind(sources []*pb.Source) (*Bound, error) {
	b := &Bound{
		Footer: f, Sources: sources, Bindings: make([]Binding, len(sources)), bySource: make([][]int, len(sources)),
	}
	keys, values := make([]Use, len(sources)), make([]Use, len(sources))
	for i, s := range sources {
		how, column, err := f.find(s)
		if err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		if b.Bindings[i].Access = how; !how.Stored() {
			continue
		}
		if err := f.known(column); err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		from, to := f.LeavesOf(column)
		values[i] = f.use(to-1, s)
		b.Uses = append(b.Uses, values[i])
		if how == format.MapKey {
			keys[i] = Use{Leaf: from, Kind: f.Leaves[from].Kind}
			b.Uses = append(b.Uses, keys[i])
		}
		for leaf := range f.leaves(column) {
			b.bySource[i] = append(b.bySource[i], leaf)
		}
	}
	slices.SortFunc(b.Uses, compareUses)
	b.Uses = slices.Compact(b.Uses)
	for i := range b.Bindings {
		at := &b.Bindings[i]
		if at.Stored() {
			at.Value, _ = slices.BinarySearchFunc(b.Uses, values[i], compareUses)
		}
		if at.Access == format.MapKey {
			at.Key, _ = slices.BinarySearchFunc(b.Uses, keys[i], compareUses)
		}
	}
	for _, use := range b.Uses {
		b.leaves = append(b.leaves, use.Leaf)
	}
	b.leaves = slices.Compact(b.leaves)
	return b, nil
}

// use is how the values of a source are made of a leaf's.
func (f *Footer) use(leaf int, s *pb.Source) Use {
	physical := f.Leaves[leaf].Physical
	return Use{
		leaf, s.GetType().GetKind(),
		(physical == Int96 || physical == Int32) && s.GetMeaning() == format.Microseconds,
	}
}

func compareUses(a, b Use) int {
	switch {
	case a.Leaf != b.Leaf:
		return a.Leaf - b.Leaf
	case a.Micros != b.Micros && b.Micros:
		return -1
	case a.Micros != b.Micros:
		return 1
	}
	return int(a.Kind - b.Kind)
}

// find is Columns.Find; a column whose key is missing is this process's fault.
func (f *Footer) find(s *pb.Source) (format.Access, int, error) {
	if i, ok := f.ColumnOf(s); ok {
		if err := f.Locked(i); err != nil {
			return 0, 0, err
		}
	}
	return f.Find(s)
}

// Has reports whether the file has values of a source.
func (b *Bound) Has(source int) bool { return b.Bindings[source].Stored() }
