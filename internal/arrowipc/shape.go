package arrowipc

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Of Arrow's Schema.fbs: types of fields.
const (
	typeStruct    = 13
	typeFixedList = 16
)

const (
	// maxDims bounds the dimensions of a shape, maxTensor the bytes of a tensor's description, and maxPairs what else a
	// field's metadata may have beside it.
	maxDims   = 8
	maxTensor = 4 << 10
	maxPairs  = 256
)

// EachShape calls each with the shapes that the fields of a schema say their lists have, with the names that lead to
// these: those of the structs around them, and within them. The schema is a message as it is in streams, behind its
// length. What is wrong with it is passed over.
func EachShape(message []byte, each func(path []string, shape []int32)) {
	if bytes.HasPrefix(message, []byte{0xff, 0xff, 0xff, 0xff}) {
		message = message[4:]
	}
	if len(message) < 4 || len(message) > MaxHeader {
		return
	}
	schema, ok := Header(message[4:], headerSchema)
	if !ok {
		return
	}
	w := shapeWalk{left: 4 * len(message), each: each}
	w.fields(schema, 1, nil, nil)
}

// shapeWalk visits fields: left is how many bytes these may come to, for some may lie within themselves.
type shapeWalk struct {
	left int
	each func(path []string, shape []int32)
}

// fields visits a vector of fields, whose names the path leads to, and which are in lists of a shape if that is known.
func (w *shapeWalk) fields(of Table, i int, path []string, shape []int32) {
	list, _ := of.Structs(i, 4)
	if w.left -= 8 * len(list); w.left < 0 || len(path) == maxDepth {
		return
	}
	fields, _ := of.Tables(i)
	for _, f := range fields {
		name := f.Text(0)
		if w.left -= len(name); w.left < 0 {
			return
		}
		w.field(f, append(slices.Clip(path), string(name)), shape)
	}
}

func (w *shapeWalk) field(f Table, path []string, shape []int32) {
	if shape == nil {
		if shape = Shape(f); shape != nil {
			f, _ = fixedLists(f, func(int32) {})
		}
	}
	switch {
	case f.Byte(2) == typeStruct:
		w.fields(f, 5, path, shape)
	case shape != nil:
		w.each(path, shape)
	}
}

// Shape is the one that a field says all its lists have: that of fixed-size lists, within each other or not, or of the
// extension type arrow.fixed_shape_tensor, which is a fixed-size list. It is nil of others.
func Shape(field Table) (shape []int32) {
	inner, ok := fixedLists(field, func(size int32) { shape = append(shape, size) })
	if !ok || isList(inner) {
		return nil
	}
	if tensor := tensorShape(field); len(shape) == 1 && product(tensor) == int64(shape[0]) {
		return tensor
	}
	return shape
}

// fixedLists calls each with the sizes of the fixed-size lists that a field is, and returns what the innermost holds.
func fixedLists(field Table, each func(size int32)) (Table, bool) {
	for dims := 0; field.Byte(2) == typeFixedList; dims++ {
		kind, ok := field.Table(3)
		list, _ := field.Structs(5, 4)
		if !ok || len(list) != 4 || dims == maxDims || kind.Int32(0) < 1 {
			return Table{}, false
		}
		each(kind.Int32(0))
		children, ok := field.Tables(5)
		if !ok {
			return Table{}, false
		}
		field = children[0]
	}
	return field, true
}

// isList reports whether a field is lists of any lengths, or maps.
func isList(field Table) bool {
	const list, maps, largeList, listView, largeListView = 12, 17, 21, 25, 26
	switch field.Byte(2) {
	case list, maps, largeList, listView, largeListView:
		return true
	}
	return false
}

// tensorShape is what a field's metadata says, if it is of tensors whose values lie one row behind the other.
func tensorShape(field Table) []int32 {
	var name, description []byte
	if list, _ := field.Structs(6, 4); len(list) > 4*maxPairs {
		return nil
	}
	pairs, _ := field.Tables(6)
	for _, pair := range pairs {
		switch string(pair.Text(0)) {
		case "ARROW:extension:name":
			name = pair.Text(1)
		case "ARROW:extension:metadata":
			description = pair.Text(1)
		}
	}
	var tensor struct {
		Shape       []int32 `json:"shape"`
		Permutation []int   `json:"permutation"`
	}
	if string(name) != "arrow.fixed_shape_tensor" || len(description) > maxTensor ||
		json.Unmarshal(description, &tensor) != nil || len(tensor.Shape) > maxDims {
		return nil
	}
	for i, p := range tensor.Permutation {
		if i != p {
			return nil
		}
	}
	return tensor.Shape
}

// product is how many values a shape has; 0 of one that has no dimensions, or of one that cannot be.
func product(shape []int32) int64 {
	if len(shape) == 0 {
		return 0
	}
	n := int64(1)
	for _, d := range shape {
		if d < 1 || n > 1<<31 {
			return 0
		}
		n *= int64(d)
	}
	return n
}
