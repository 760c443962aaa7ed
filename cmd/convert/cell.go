package convert

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// cell is where a value that is compared stands: in an array, or in fields of the structs there. Without an array it is
// null.
type cell struct {
	values arrow.Array
	i      int
	fields []int
}

// at is the cell of a row of those that are compared.
func (v *view) at(s *side, row int64) cell {
	return cell{s.rec.Column(v.column), int(s.used + row), v.fields}.down()
}

// down goes down the structs, until a list or what is no struct. What is null, or in a null, is in no array.
func (p cell) down() cell {
	for {
		if p.values == nil || isNone(p.values, p.i) {
			return cell{}
		}
		s, ok := p.values.(*array.Struct)
		if !ok || len(p.fields) == 0 {
			return p
		}
		p.values, p.fields = s.Field(p.fields[0]), p.fields[1:]
	}
}

// isNone reports whether a value is null. Arrays of nulls do not say so themselves.
func isNone(a arrow.Array, i int) bool { return a.DataType().ID() == arrow.NULL || a.IsNull(i) }

// String writes the value.
func (p cell) String() string {
	if p.values == nil {
		return "(null)"
	}
	return p.values.ValueStr(p.i)
}

// equalCells reports whether two values are the same, both of which are down.
func equalCells(a, b cell) bool {
	switch {
	case a.values == nil || b.values == nil:
		return a.values == nil && b.values == nil
	case len(a.fields)+len(b.fields) == 0:
		return equal(a.values, a.i, b.values, b.i)
	}
	inA, inB := a.values.(array.ListLike), b.values.(array.ListLike) // of structs, or of what is in their fields
	fromA, toA := inA.ValueOffsets(a.i)
	fromB, toB := inB.ValueOffsets(b.i)
	if toA-fromA != toB-fromB {
		return false
	}
	for k := range int(toA - fromA) {
		x := cell{inA.ListValues(), int(fromA) + k, a.fields}.down()
		y := cell{inB.ListValues(), int(fromB) + k, b.fields}.down()
		if !equalCells(x, y) {
			return false
		}
	}
	return true
}
