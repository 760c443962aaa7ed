package parquet

import (
	"iter"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// place is where a node stands in the schema, itself included.
type place struct {
	path     []string // all levels
	feature  []string // without the inner levels of lists and maps
	id       int32    // that the file gives the last level of feature; 0: none
	def, rep int
}

// enter descends to child n, which is a level of the feature's path if named is set.
func (p place) enter(n *node, named bool) place {
	q := place{path: append(slices.Clip(p.path), n.name), feature: p.feature, id: p.id, def: p.def, rep: p.rep}
	if named {
		q.feature, q.id = append(slices.Clip(p.feature), n.name), n.id
	}
	if n.repetition != required {
		q.def++
	}
	if n.repetition == repeated {
		q.rep++
	}
	return q
}

// span is a run of leaves.
type span struct{ from, to int }

// leaves are those that make up a column: all, or of a map column the first and the last one.
func (s span) leaves(c *spec.Column) iter.Seq[int] {
	return func(yield func(int) bool) {
		for leaf := s.from; leaf < s.to && yield(leaf); leaf++ {
			if c.Key != pb.Kind_KIND_UNSPECIFIED {
				leaf = max(leaf, s.to-2)
			}
		}
	}
}

// columnBuilder turns a schema into leaves and the columns that they make up.
type columnBuilder struct {
	columns []spec.Column
	ids     []int32 // of each column
	spans   []span  // the leaves of each column
	leaves  []Leaf
	types   []*node // the node of each leaf
}

// visit adds the columns at and below n, which stands in nothing that repeats.
func (b *columnBuilder) visit(n *node, parent place) {
	p := parent.enter(n, true)
	switch {
	case n.repetition == repeated:
		b.elements(n, p, p, parent.def)
	case n.isLeaf():
		b.scalar(n, p)
	case n.isList():
		b.listGroup(n, p)
	case n.isMap():
		b.mapGroup(n, p)
	case n.isVariant():
		b.unsupported(n, p, "a variant: its rows differ in type; write its fields as columns")
	case len(n.children) == 0:
		b.unsupported(n, p, "a group without fields")
	default:
		for _, child := range n.children {
			b.visit(child, p)
		}
	}
}

// scalar adds a column of one value a row.
func (b *columnBuilder) scalar(n *node, p place) {
	kind, logical, reason := n.kind()
	if reason != "" {
		b.unsupported(n, p, reason)
		return
	}
	logical.RowNullDef = p.def
	from := len(b.leaves)
	b.leaf(n, p, Leaf{Column: len(b.columns), Kind: kind, Logical: logical})
	b.column(p, spec.Column{
		Type: spec.Type{Kind: kind}, Own: n.own(), Meaning: n.meaning(),
		Int96: n.physical == Int96, Text: n.isText(), Date: n.isDate(), Clock: n.clock,
	}, span{from, from + 1})
}

// listGroup adds the columns of a group annotated as a list.
func (b *columnBuilder) listGroup(n *node, p place) {
	held, ok := holds(n, p)
	if !ok {
		b.unsupported(n, p, "a list without a repeated level")
		return
	}
	levels, innermost := nested(held)
	if len(levels) == 0 || !innermost.node.isLeaf() {
		b.elements(held.node, held.at, held.repeats, p.def)
		return
	}
	b.list(innermost.node, innermost.at, Logical{RowNullDef: p.def, ListDef: held.repeats.def}, levels...)
}

// element is what a list holds, where that is, and where the level is that repeats.
type element struct {
	node        *node
	at, repeats place
}

// holds finds the element of a group annotated as a list, in the shapes that the format's rules for old writers name.
func holds(n *node, p place) (element, bool) {
	if len(n.children) != 1 || n.children[0].repetition != repeated {
		return element{}, false
	}
	level := n.children[0]
	at := p.enter(level, false)
	wraps := len(level.children) == 1 && level.children[0].repetition != repeated &&
		level.name != "array" && level.name != n.name+"_tuple"
	if !wraps {
		return element{level, at, at}, true
	}
	return element{level.children[0], at.enter(level.children[0], false), at}, true
}

// nested finds the levels of lists that an element is, as far as they can be read, and what the innermost holds.
func nested(e element) (levels []ListLevel, innermost element) {
	for len(levels) < spec.MaxNested && e.node.isList() {
		inner, ok := holds(e.node, e.at)
		if !ok {
			break
		}
		levels = append(levels, ListLevel{NullDef: uint8(e.at.def), ElementDef: uint8(inner.repeats.def)})
		e = inner
	}
	return levels, e
}

// elements adds the columns of what a list holds, n at p: one, or one for each field of structs. repeats is the level
// that repeats, rowDef the definition level at which the row is present.
func (b *columnBuilder) elements(n *node, p, repeats place, rowDef int) {
	switch {
	case p.rep > 1:
		b.unsupported(n, p, "a list of lists")
	case n.isLeaf():
		b.list(n, p, Logical{RowNullDef: rowDef, ListDef: repeats.def})
	case n.shape() != "structs":
		b.unsupported(n, p, "a list of "+n.shape())
	case len(n.children) == 0:
		b.unsupported(n, p, "a group without fields")
	default:
		for _, child := range n.children {
			b.elements(child, p.enter(child, true), repeats, rowDef)
		}
	}
}

// list adds a list column of the leaf n; levels are those of lists within the list.
func (b *columnBuilder) list(n *node, p place, row Logical, levels ...ListLevel) {
	kind, logical, reason := n.kind()
	switch {
	case n.isUntyped():
		reason = format.UntypedList
	case reason != "":
		b.unsupported(n, p, reason)
		return
	}
	logical.RowNullDef, logical.ListDef = row.RowNullDef, row.ListDef
	copy(logical.Nested[:], levels)
	from := len(b.leaves)
	b.leaf(n, p, Leaf{Column: len(b.columns), Kind: kind, Logical: logical})
	b.column(p, spec.Column{
		Type: spec.Type{Kind: kind, List: true, Nested: uint32(len(levels))}, Own: n.own(), Meaning: n.meaning(),
		Int96: n.physical == Int96, Text: n.isText(), Date: n.isDate(), Clock: n.clock, Unsupported: reason,
		Untyped: n.isUntyped(),
	}, span{from, from + 1})
}

// unsupported adds a column that no feature can be, with the leaves at and below n.
func (b *columnBuilder) unsupported(n *node, p place, reason string) {
	from := len(b.leaves)
	b.orphans(n, p)
	b.column(p, spec.Column{Unsupported: reason, Untyped: n.isUntyped()}, span{from, len(b.leaves)})
}

func (b *columnBuilder) orphans(n *node, p place) {
	if n.isLeaf() {
		b.leaf(n, p, Leaf{Column: -1})
		return
	}
	for _, child := range n.children {
		b.orphans(child, p.enter(child, false))
	}
}

func (b *columnBuilder) leaf(n *node, p place, l Leaf) {
	l.Path, l.Physical, l.TypeLength, l.MaxDef, l.MaxRep = p.path, n.physical, n.typeLength, p.def, p.rep
	b.leaves, b.types = append(b.leaves, l), append(b.types, n)
}

func (b *columnBuilder) column(at place, c spec.Column, leaves span) {
	c.Name, c.Path = spec.ColumnName(at.feature, c.Field), at.feature
	b.columns, b.ids, b.spans = append(b.columns, c), append(b.ids, at.id), append(b.spans, leaves)
}

// finish hands what was built to f. Columns that have a leaf for which blocked gives a reason, or share a name, become
// unsupported.
func (b *columnBuilder) finish(f *Footer, blocked map[int]string) {
	for i := range b.columns {
		for l := range b.spans[i].leaves(&b.columns[i]) {
			if reason, ok := blocked[l]; ok && readable(&b.columns[i]) {
				b.columns[i].Unsupported, b.columns[i].Untyped = reason, false
			}
		}
	}
	f.Columns = format.NewColumns(b.columns)
	f.Identify(b.ids)
	needed := make([]bool, len(b.leaves)) // by a column that can be read: either half of a map is one, too
	for i := range b.columns {
		for l := range b.spans[i].leaves(&b.columns[i]) {
			needed[l] = needed[l] || readable(&b.columns[i])
		}
	}
	for i := range b.leaves {
		if l := &b.leaves[i]; l.Column >= 0 && !needed[i] {
			l.Column, l.Kind, l.Logical = -1, pb.Kind_KIND_UNSPECIFIED, Logical{}
		}
	}
	f.Leaves, f.spans = b.leaves, b.spans
}

// readable reports whether a column can be read, at least beside files that have a type for it.
func readable(c *spec.Column) bool { return c.Unsupported == "" || c.Untyped }
