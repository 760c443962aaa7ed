package reference

import (
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// cell is the value of one feature in one row. Ints holds bools (0 and 1) and all integers; Floats holds all floats,
// shorter ones exactly; Texts holds binary. A scalar has one value, or none if it is null; a list has its elements.
type cell struct {
	null   bool
	ints   []int64
	floats []float64
	texts  [][]byte
	// gone marks the null elements of a list; it has as many elements as the list.
	gone []bool
	// inner has, of lists of lists, how many elements each list below the row's has, level by level; -1 is a null one.
	inner [][]int
}

// clear makes the cell null, keeping its memory.
func (c *cell) clear() {
	c.null = true
	c.ints, c.floats, c.texts, c.gone = c.ints[:0], c.floats[:0], c.texts[:0], c.gone[:0]
	for level := range c.inner {
		c.inner[level] = c.inner[level][:0]
	}
}

// copyFrom makes c equal to d.
func (c *cell) copyFrom(d *cell) {
	c.null = d.null
	c.ints = append(c.ints[:0], d.ints...)
	c.floats = append(c.floats[:0], d.floats...)
	c.texts = append(c.texts[:0], d.texts...)
	c.gone = append(c.gone[:0], d.gone...)
}

// takeList makes c list i of those that another cell has.
func (c *cell) takeList(from *cell, i int) {
	c.clear()
	n := from.inner[0][i]
	if c.null = n < 0; c.null {
		return
	}
	count := func(lengths []int) (all int) {
		for _, n := range lengths {
			all += max(n, 0)
		}
		return all
	}
	first := count(from.inner[0][:i])
	c.inner = c.inner[:0]
	for _, lengths := range from.inner[1:] {
		c.inner = append(c.inner, slices.Clone(lengths[first:first+n]))
		first, n = count(lengths[:first]), count(lengths[first:first+n])
	}
	if len(from.ints) > 0 {
		c.ints = append(c.ints, from.ints[first:first+n]...)
	}
	if len(from.floats) > 0 {
		c.floats = append(c.floats, from.floats[first:first+n]...)
	}
	if len(from.texts) > 0 {
		c.texts = append(c.texts, from.texts[first:first+n]...)
	}
	c.gone = append(c.gone, from.gone[first:first+n]...)
}

// holding is the slice of a cell that holds a kind.
type holding int

const (
	storedInts holding = iota
	storedFloats
	storedTexts
)

func holdingOf(k pb.Kind) holding {
	switch k {
	case pb.Kind_FLOAT16, pb.Kind_BFLOAT16, pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		return storedFloats
	case pb.Kind_BINARY:
		return storedTexts
	}
	return storedInts
}

// count is the number of values, null elements included.
func (c *cell) count(k pb.Kind) int {
	switch holdingOf(k) {
	case storedInts:
		return len(c.ints)
	case storedFloats:
		return len(c.floats)
	}
	return len(c.texts)
}

// isGone reports whether element j of a list is null; scalars have none.
func (c *cell) isGone(j int) bool { return j < len(c.gone) && c.gone[j] }

// constant turns a literal of the spec into a cell of type t; a single value is a list of one.
func constant(v *pb.Value, t spec.Type) (*cell, error) {
	c := &cell{}
	values := []*pb.Value{v}
	if t.List {
		values = listed(v)
		c.gone = make([]bool, len(values))
	}
	for _, v := range values {
		if err := c.appendConstant(v, t.Kind); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cell) appendConstant(v *pb.Value, k pb.Kind) error {
	bad := fmt.Errorf("the value %v does not fit %v", v, k)
	switch k {
	case pb.Kind_BOOL:
		b, ok := v.GetKind().(*pb.Value_Bool)
		if !ok {
			return bad
		}
		c.ints = append(c.ints, boolInt(b.Bool))
	case pb.Kind_BINARY:
		s, ok := v.GetKind().(*pb.Value_Text)
		if !ok {
			return bad
		}
		c.texts = append(c.texts, []byte(s.Text))
	case pb.Kind_FLOAT16, pb.Kind_BFLOAT16, pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		x, ok := number(v)
		if !ok {
			return bad
		}
		c.floats = append(c.floats, nearest(x, k))
	default:
		n, ok := integer(v)
		if !ok || n != wrapped(n, k) {
			return bad
		}
		c.ints = append(c.ints, n)
	}
	return nil
}

// number reads a literal that may be an integer or a float.
func number(v *pb.Value) (float64, bool) {
	switch n := v.GetKind().(type) {
	case *pb.Value_Int:
		return float64(n.Int), true
	case *pb.Value_Float:
		return n.Float, true
	}
	return math.NaN(), false
}

// integer reads a literal that is an integer, or a float without a fraction.
func integer(v *pb.Value) (int64, bool) {
	switch n := v.GetKind().(type) {
	case *pb.Value_Int:
		return n.Int, true
	case *pb.Value_Float:
		whole := n.Float == math.Trunc(n.Float) && n.Float >= -1<<63 && n.Float < 1<<63
		return int64(n.Float), whole
	}
	return 0, false
}

// appendZero adds the placeholder of a null element.
func (c *cell) appendZero(k pb.Kind) {
	switch holdingOf(k) {
	case storedInts:
		c.ints = append(c.ints, 0)
	case storedFloats:
		c.floats = append(c.floats, 0)
	case storedTexts:
		c.texts = append(c.texts, nil)
	}
}

// appendFrom adds value j of another cell, which is not null, as one of a kind.
func (c *cell) appendFrom(d *cell, j int, k pb.Kind) {
	if holdingOf(k) == storedFloats {
		c.floats = append(c.floats, d.floats[j])
	} else {
		c.ints = append(c.ints, wrapped(d.ints[j], k))
	}
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
