package parquet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// mapGroup adds the columns of a map's keys, by which they are selected, and of all its keys and its values.
func (b *columnBuilder) mapGroup(n *node, p place) {
	entries, reason := entriesOf(n)
	if reason != "" {
		b.unsupported(n, p, reason)
		return
	}
	at := p.enter(entries, false)
	values, reason := valuesOf(entries.children[1], at.enter(entries.children[1], false))
	if reason != "" {
		b.unsupported(n, p, "a map whose "+reason)
		return
	}
	keys := entries.children[0]
	from, row := len(b.leaves), Logical{RowNullDef: p.def, ListDef: at.def}
	kind := b.side(keys, at.enter(keys, false), row)
	for i, v := range values {
		b.side(v.node, v.at, row, v.levels...)
		c := v.column(uint32(len(v.levels)))
		c.Key, c.Field, c.UnsignedKeys = kind, v.field, keys.meaning() == format.Unsigned
		b.column(p, c, span{from, from + i + 2})
	}
	key := mapSide{node: keys}
	b.column(p.side(keys, "key"), key.column(1), span{from, from + 1})
	for i, v := range values {
		path := slices.Concat([]string{"value"}, v.field)
		b.column(p.side(v.node, path...), v.column(uint32(len(v.levels)+1)), span{from + i + 1, from + i + 2})
	}
}

// side is where a map's keys or values stand as a column of their own.
func (p place) side(n *node, path ...string) place {
	return place{feature: slices.Concat(p.feature, path), id: n.id}
}

// side adds the leaf of a map's keys or values, and returns its kind.
func (b *columnBuilder) side(n *node, p place, row Logical, levels ...ListLevel) pb.Kind {
	kind, logical, _ := n.kind()
	logical.RowNullDef, logical.ListDef = row.RowNullDef, row.ListDef
	copy(logical.Nested[:], levels)
	b.leaf(n, p, Leaf{Column: len(b.columns), Kind: kind, Logical: logical})
	return kind
}

// mapSide is a leaf below the entries of a map.
type mapSide struct {
	node   *node
	at     place
	field  []string    // of the values, if they are maps
	levels []ListLevel // of the lists that an entry has
}

// column describes it with so many levels of lists.
func (s *mapSide) column(lists uint32) spec.Column {
	kind, _, _ := s.node.kind()
	t := spec.Type{Kind: kind, List: lists > 0}
	if t.List {
		t.Nested = lists - 1
	}
	return spec.Column{
		Type: t, Own: s.node.own(), Meaning: s.node.meaning(), Text: s.node.isText(), Date: s.node.isDate(),
		Clock: s.node.clock, Int96: s.node.physical == Int96,
	}
}

// entriesOf is the level of a map that repeats, or why its keys select nothing.
func entriesOf(n *node) (entries *node, reason string) {
	if len(n.children) != 1 || n.children[0].repetition != repeated || n.children[0].isLeaf() {
		return nil, "a map without a repeated level"
	}
	if entries = n.children[0]; len(entries.children) != 2 {
		return nil, fmt.Sprintf("a map whose entries have %d fields instead of key and value", len(entries.children))
	}
	keys := entries.children[0]
	if !keys.isLeaf() || keys.repetition == repeated {
		return nil, "a map whose keys are " + keys.shape()
	}
	kind, _, reason := keys.kind()
	switch {
	case reason != "":
		return nil, "a map whose keys cannot be read: " + reason
	case kind != pb.Kind_INT32 && kind != pb.Kind_INT64 && kind != pb.Kind_BINARY:
		return nil, fmt.Sprintf("a map with %s keys; keys may be integers or strings", strings.ToLower(kind.String()))
	}
	return entries, ""
}

// valuesOf finds the leaves of a map's values, n at p: one of scalars and of lists of them, and two of maps of these.
func valuesOf(n *node, p place) (sides []mapSide, reason string) {
	if !n.isMap() {
		side, reason := valueOf(n, p)
		return []mapSide{side}, reason
	}
	entries, reason := entriesOf(n)
	if reason != "" {
		return nil, "values are maps that cannot be read: " + reason
	}
	at := p.enter(entries, false)
	outer := ListLevel{NullDef: uint8(p.def), ElementDef: uint8(at.def)}
	for i, name := range []string{"key", "value"} {
		side, reason := valueOf(entries.children[i], at.enter(entries.children[i], false))
		if reason != "" {
			return nil, "values are maps whose " + reason
		}
		if 1+len(side.levels) > spec.MaxNested {
			return nil, "values are maps of lists that are nested too deep"
		}
		side.field, side.levels = []string{name}, append([]ListLevel{outer}, side.levels...)
		sides = append(sides, side)
	}
	return sides, ""
}

// valueOf finds the leaf of values that are scalars, or lists of them.
func valueOf(n *node, p place) (side mapSide, reason string) {
	if n.repetition == repeated {
		return side, "values are lists without a level of their own"
	}
	levels, e := nested(element{node: n, at: p})
	switch {
	case !e.node.isLeaf() && len(levels) > 0:
		return side, "values are lists of " + e.node.shape()
	case !e.node.isLeaf():
		return side, "values are " + e.node.shape()
	}
	if _, _, reason := e.node.kind(); reason != "" {
		return side, "values cannot be read: " + reason
	}
	return mapSide{node: e.node, at: e.at, levels: levels}, ""
}
