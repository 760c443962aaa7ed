package arrowipc

import (
	"bytes"
	"encoding/json"
	"math"
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
	maxTensor = 512
	maxPairs  = 32
)

// What looking at parts of a schema costs, in bytes: less than four times what they take where a writer shares none.
const (
	costEntry  = 8 // of a vector
	costList   = 32
	costTensor = 128 // but for its description
)

// EachShape calls each with the shapes that the fields of a schema say their lists have, with the names that lead to
// these: those of the structs around them, and within them. The path is valid until each returns. The schema is a
// message as it is in streams, behind its length. What is wrong with it is passed over.
func EachShape(message []byte, each func(path []string, shape []int32)) {
	if bytes.HasPrefix(message, []byte{0xff, 0xff, 0xff, 0xff}) {
		message = message[4:]
	}
	if len(message) < 4 || len(message) > MaxHeader {
		return
	}
	schema, ok := Header(message[4:], SchemaHeader)
	if !ok {
		return
	}
	w := shapeWalk{left: 4 * len(message), each: each}
	w.fields(schema, 1, nil, nil)
}

// shapeWalk visits fields: left is what that may cost, for many may be one and the same, and lie within themselves.
type shapeWalk struct {
	left int
	each func(path []string, shape []int32)
}

// take reports whether something may cost so much.
func (w *shapeWalk) take(cost int) bool {
	w.left -= cost
	return w.left >= 0
}

// fields visits a vector of fields, whose names the path leads to, and which are in lists of a shape if that is known.
func (w *shapeWalk) fields(of Table, i int, path []string, shape []int32) {
	list, _ := of.Structs(i, 4)
	if !w.take(costEntry*len(list)/4) || len(path) == maxDepth {
		return
	}
	fields, _ := of.Tables(i)
	for _, f := range fields {
		name := f.Text(0)
		if !w.take(len(name)) {
			return
		}
		w.field(f, append(path, string(name)), shape)
	}
}

func (w *shapeWalk) field(f Table, path []string, shape []int32) {
	if shape == nil {
		shape, f = w.shape(f)
	}
	switch {
	case f.Byte(2) == typeStruct:
		w.fields(f, 5, path, shape)
	case shape != nil && w.take(lengths(path)): // each will look at all of it
		w.each(path, shape)
	}
}

func lengths(path []string) (n int) {
	for _, name := range path {
		n += len(name)
	}
	return n
}

// Shape is the one that a field says all its lists have: that of fixed-size lists, within each other or not, or of the
// extension type arrow.fixed_shape_tensor, which is a fixed-size list. It is nil of others.
func Shape(field Table) []int32 {
	w := shapeWalk{left: math.MaxInt} // one field costs little
	shape, _ := w.shape(field)
	return shape
}

// shape is Shape, and what the innermost lists hold, or the field itself if it has none.
func (w *shapeWalk) shape(field Table) (shape []int32, inner Table) {
	inner = field
	for inner.Byte(2) == typeFixedList {
		kind, ok := inner.Table(3)
		list, _ := inner.Structs(5, 4)
		if !w.take(costList) || !ok || len(list) != 4 || len(shape) == maxDims || kind.Int32(0) < 1 {
			return nil, field
		}
		children, ok := inner.Tables(5)
		if !ok {
			return nil, field
		}
		shape, inner = append(shape, kind.Int32(0)), children[0]
	}
	if len(shape) == 0 || isList(inner) {
		return nil, field
	}
	if len(shape) == 1 {
		if tensor := w.tensor(field); product(tensor) == int64(shape[0]) {
			return tensor, inner
		}
	}
	return shape, inner
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

// tensor is the shape in a field's metadata, if it is of tensors whose values lie one row behind the other.
func (w *shapeWalk) tensor(field Table) []int32 {
	var name, description []byte
	if list, _ := field.Structs(6, 4); len(list) > 4*maxPairs || !w.take(costEntry*len(list)/4) {
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
		!w.take(costTensor+len(description)) || json.Unmarshal(description, &tensor) != nil ||
		len(tensor.Shape) > maxDims {
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
