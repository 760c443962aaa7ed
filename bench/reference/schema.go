package reference

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// column is a selectable column of a file: a top-level one, a struct's field, a map (whose keys are selectable), or all
// keys or all values of a map.
type column struct {
	name   string
	typ    spec.Type
	own    pb.Kind // as tensors have it, where ops see typ.Kind
	shape  []int32 // of all rows
	isMap  bool    // typ is that of one key's value, or of its keys or values: the name is then scores.*.key, say
	leaves []leaf  // of a map: keys and values; else one
	unit   string  // of timestamps
	uri    string  // of the first file that has it
	key    bool    // it is a partition key, and no column

	// Of files whose rows are records:
	path     []string // where a record has it
	inferred bool     // its type is what values show
	declared bool     // or what the dataset says
	untyped  bool     // no value was seen that has a type
	text     bool     // its values are UTF-8
	unsigned bool     // its integers are the bits of uint64
	kind     int      // of texts, what they are
}

// supported reports whether the column can be a feature.
func (c column) supported() bool { return c.typ.Kind != pb.Kind_KIND_UNSPECIFIED }

// leaf is a leaf column of a file and what the definition levels of its values say.
type leaf struct {
	index    int // among all leaves
	physical format.Type
	fixed    int // bytes of each value, of fixed-length byte arrays
	kind     pb.Kind
	own      pb.Kind
	add      appender
	// The levels at and above which the row is not null; of lists, there is an element; the value is not null.
	rowDef, elementDef, valueDef int
	// Of lists of lists, those below the row's, each with its own levels.
	inner []inner
}

// inner is a list within a list: the definition levels at and above which it is not null; it has an element.
type inner struct{ listDef, elementDef int }

// highestRep is the highest repetition level: how many levels of lists there are.
func (l leaf) highestRep() int {
	if l.elementDef > 0 {
		return 1 + len(l.inner)
	}
	return 0
}

// node is an element of the schema and its place: its name, through structs, and its definition level.
type node struct {
	*format.SchemaElement
	name     string
	def      int
	index    int // of a leaf
	children []*node
}

func (n *node) isLeaf() bool { return n.Type.Valid }

func (n *node) repeats() bool {
	return n.RepetitionType.Valid && n.RepetitionType.V == format.Repeated
}

// annotated reports whether a group bears a logical type or, without any, the older annotation of one.
func (n *node) annotated(converted ...deprecated.ConvertedType) bool {
	return !n.isLeaf() && n.LogicalType.Value == nil && n.ConvertedType.Valid &&
		slices.Contains(converted, n.ConvertedType.V)
}

func (n *node) isList() bool {
	_, logical := n.LogicalType.Value.(*format.ListType)
	return !n.isLeaf() && logical || n.annotated(deprecated.List)
}

func (n *node) isMap() bool {
	_, logical := n.LogicalType.Value.(*format.MapType)
	return !n.isLeaf() && logical || n.annotated(deprecated.Map, deprecated.MapKeyValue)
}

func (n *node) isVariant() bool {
	_, logical := n.LogicalType.Value.(*format.VariantType)
	return logical
}

// treeBuilder makes a tree of a schema's flat list.
type treeBuilder struct {
	rest   []format.SchemaElement
	leaves int
}

func (b *treeBuilder) next(parent *node) (*node, error) {
	if len(b.rest) == 0 {
		return nil, errors.New("the schema ends inside a group")
	}
	f := &node{SchemaElement: &b.rest[0]}
	b.rest = b.rest[1:]
	if parent != nil {
		f.name, f.def = parent.name+"."+f.Name, parent.def
		if f.RepetitionType.Valid && f.RepetitionType.V != format.Required {
			f.def++
		}
	}
	if f.isLeaf() {
		f.index = b.leaves
		b.leaves++
		return f, nil
	}
	for range f.NumChildren.V {
		child, err := b.next(f)
		if err != nil {
			return nil, err
		}
		f.children = append(f.children, child)
	}
	return f, nil
}

// columnsOf lists what can be selected from a file of this schema, and, without a type, what cannot.
func columnsOf(schema []format.SchemaElement) ([]column, error) {
	root, err := (&treeBuilder{rest: schema}).next(nil)
	if err != nil {
		return nil, err
	}
	var out []column
	for _, f := range root.children {
		out = appendColumns(out, f)
	}
	times := map[string]int{}
	for i := range out {
		out[i].name = strings.TrimPrefix(out[i].name, ".")
		times[out[i].name]++
	}
	for i := range out {
		if times[out[i].name] > 1 { // nobody could say which is meant
			out[i] = column{name: out[i].name}
		}
	}
	return out, nil
}

func appendColumns(out []column, f *node) []column {
	switch {
	case f.isLeaf() && f.repeats():
		return append(out, listColumn(f.name, f.def-1, f.def, f, nil))
	case f.isLeaf():
		l := leafOf(f, f.def, 0)
		return append(out, column{
			name: f.name, typ: spec.Type{Kind: l.kind}, own: l.own, leaves: []leaf{l}, unit: unitOf(f.SchemaElement),
		})
	case f.repeats() || f.isVariant() || len(f.children) == 0:
		return append(out, column{name: f.name})
	case f.isList():
		return append(out, listGroup(f))
	case f.isMap():
		return appendMap(out, f)
	}
	for _, child := range f.children {
		out = appendColumns(out, child)
	}
	return out
}

// listGroup is the column of a group that is a list, of scalars or of lists of them if it is to be of use.
func listGroup(f *node) column {
	entry, element := listElement(f)
	var below []inner
	for list := element; element != nil && !element.isLeaf(); list = element {
		var at *node
		if at, element = listElement(list); element != nil {
			below = append(below, inner{list.def, at.def})
		}
	}
	if element == nil {
		return column{name: f.name}
	}
	return listColumn(f.name, f.def, entry.def, element, below)
}

// listElement is what repeats in a list, and its elements, if they are of use. Old writers left out the level of the
// elements, and a group named "array" or after the list is itself the element.
func listElement(list *node) (entry, element *node) {
	if !list.isList() || len(list.children) != 1 || !list.children[0].repeats() {
		return nil, nil
	}
	entry = list.children[0]
	switch {
	case entry.isLeaf() || entry.isList():
		return entry, entry
	case len(entry.children) != 1 || entry.Name == "array" || entry.Name == list.Name+"_tuple":
		return nil, nil
	case entry.children[0].repeats():
		return nil, nil
	}
	return entry, entry.children[0]
}

func listColumn(name string, rowDef, elementDef int, element *node, below []inner) column {
	l := leafOf(element, rowDef, elementDef)
	l.inner = below
	t := spec.Type{Kind: l.kind, List: true, Nested: uint32(len(below))}
	return column{name: name, typ: t, own: l.own, leaves: []leaf{l}}
}

// appendMap adds a map column, and its keys and values as columns of their own.
func appendMap(out []column, f *node) []column {
	if len(f.children) != 1 || !f.children[0].repeats() || len(f.children[0].children) != 2 {
		return append(out, column{name: f.name})
	}
	entry := f.children[0]
	parts := mapValues(entry.children[1])
	if parts == nil || !entry.children[0].isLeaf() || entry.children[0].repeats() {
		return append(out, column{name: f.name})
	}
	keys := listColumn(f.name+".key", f.def, entry.def, entry.children[0], nil)
	if !slices.Contains([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64, pb.Kind_BINARY}, keys.typ.Kind) {
		return append(out, column{name: f.name})
	}
	var values []column
	for _, p := range parts {
		all := listColumn(f.name+".value"+p.field, f.def, entry.def, p.node, p.inner)
		if !all.supported() {
			return append(out, column{name: f.name})
		}
		one := column{
			name: f.name, typ: spec.Type{Kind: all.typ.Kind, List: len(p.inner) > 0}, own: all.own, isMap: true,
			leaves: []leaf{keys.leaves[0], all.leaves[0]},
		}
		if one.typ.List {
			one.typ.Nested = uint32(len(p.inner) - 1)
		}
		if p.field != "" {
			one.name += ".*" + p.field
		}
		out, values = append(out, one), append(values, all)
	}
	return append(append(out, keys), values...)
}

// mapPart is a leaf below a map's values, and the lists of an entry that its values are in.
type mapPart struct {
	field string // of values that are maps: ".key" or ".value"
	node  *node
	inner []inner
}

// mapValues finds what a map's value consists of: a scalar, a list, or a map's keys and its values; nil: of what cannot
// be selected.
func mapValues(value *node) []mapPart {
	if !value.isMap() {
		node, below := innermost(value)
		if node == nil {
			return nil
		}
		return []mapPart{{"", node, below}}
	}
	if len(value.children) != 1 || !value.children[0].repeats() || len(value.children[0].children) != 2 {
		return nil
	}
	entry := value.children[0]
	var out []mapPart
	for i, field := range []string{".key", ".value"} {
		node, below := innermost(entry.children[i])
		if node == nil || i == 0 && (below != nil || !slices.Contains([]pb.Kind{
			pb.Kind_INT32, pb.Kind_INT64, pb.Kind_BINARY,
		}, leafOf(node, 0, 0).kind)) {
			return nil
		}
		out = append(out, mapPart{field, node, append([]inner{{value.def, entry.def}}, below...)})
	}
	return out
}

// innermost is the leaf of scalars, or of lists of any depth; nil: it is neither.
func innermost(n *node) (leaf *node, below []inner) {
	if n.repeats() {
		return nil, nil
	}
	for !n.isLeaf() {
		entry, element := listElement(n)
		if element == nil {
			return nil, nil
		}
		below = append(below, inner{n.def, entry.def})
		n = element
	}
	return n, below
}

func leafOf(f *node, rowDef, elementDef int) leaf {
	kind, add := valueOf(f.SchemaElement)
	return leaf{
		index: f.index, physical: f.Type.V, fixed: int(f.TypeLength.V),
		kind: kind, own: ownOf(f.SchemaElement), add: add,
		rowDef: rowDef, elementDef: elementDef, valueDef: f.def,
	}
}

// union gathers the columns of all files by name.
type union map[string]column

// add adds a file's columns. Where files differ, int32 widens to int64 and float32 to float64.
func (u union) add(uri string, columns []column) error {
	for _, c := range columns {
		before, ok := u[c.name]
		if !ok {
			c.uri = uri
			u[c.name] = c
			continue
		}
		if before.untyped || c.untyped {
			if before.untyped {
				u[c.name] = c
			}
			continue
		}
		if !before.supported() || !c.supported() {
			before.typ.Kind = pb.Kind_KIND_UNSPECIFIED
			u[c.name] = before
			continue
		}
		kind, ok := wider(before.typ.Kind, c.typ.Kind)
		numbers := []pb.Kind{pb.Kind_INT64, pb.Kind_FLOAT64}
		if before.inferred && c.inferred && slices.Contains(numbers, before.typ.Kind) &&
			slices.Contains(numbers, c.typ.Kind) && !ok {
			kind, ok = pb.Kind_FLOAT64, true
		}
		if !ok || before.typ.List != c.typ.List || before.typ.Nested != c.typ.Nested || before.isMap != c.isMap ||
			before.unsigned != c.unsigned || c.path != nil && before.unit != c.unit {
			return fmt.Errorf("column %s is %v in %s but %v in %s", c.name, before.typ, before.uri, c.typ, uri)
		}
		before.typ.Kind = kind
		if before.own != c.own {
			before.own = pb.Kind_KIND_UNSPECIFIED
		}
		if !slices.Equal(before.shape, c.shape) {
			before.shape = nil
		}
		u[c.name] = before
	}
	return nil
}

func wider(a, b pb.Kind) (pb.Kind, bool) {
	for _, pair := range [][2]pb.Kind{{pb.Kind_INT32, pb.Kind_INT64}, {pb.Kind_FLOAT32, pb.Kind_FLOAT64}} {
		if a == pair[0] && b == pair[1] || a == pair[1] && b == pair[0] {
			return pair[1], true
		}
	}
	return a, a == b
}
