package convert

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/spec"
)

// spot is where values stand: a column, or a field of structs within it, or within lists of structs.
type spot struct {
	path   []string // their names
	column int
	fields []int // of structs, from the column down
	typ    arrow.DataType
	listed bool // the structs are in a list, so that these are lists, too
}

// name is how a spec selects it.
func (s *spot) name() string { return spec.ColumnName(s.path, nil) }

// type is that of its values, as it is written.
func (s *spot) written() arrow.DataType {
	if s.listed {
		return arrow.ListOf(written(s.typ))
	}
	return written(s.typ)
}

// spots are a column and all fields of the structs within it, in their order.
func spots(column int, f arrow.Field) []spot {
	return spotsWithin(spot{path: []string{f.Name}, column: column, typ: f.Type})
}

func spotsWithin(s spot) []spot {
	all := []spot{s}
	for i, f := range structOf(s.typ) {
		below := spot{
			path: append(s.path[:len(s.path):len(s.path)], f.Name), column: s.column,
			fields: append(s.fields[:len(s.fields):len(s.fields)], i), typ: f.Type,
			listed: s.listed || s.typ.ID() != arrow.STRUCT,
		}
		all = append(all, spotsWithin(below)...)
	}
	return all
}

// structOf are the fields of a struct, or of structs in a list.
func structOf(t arrow.DataType) []arrow.Field {
	if list, ok := t.(arrow.ListLikeType); ok && t.ID() != arrow.MAP {
		t = list.Elem()
	}
	if s, ok := t.(*arrow.StructType); ok {
		return s.Fields()
	}
	return nil
}

// of are the spot's values in a record: null where a struct around them is.
func (s *spot) of(rec arrow.Record) (arrow.Array, error) {
	a := rec.Column(s.column)
	if len(s.fields) == 0 {
		return a, nil
	}
	a, err := within(a, s.fields)
	if err != nil {
		return nil, err
	}
	var all spans
	all.take(0, 0, a.Len())
	d, err := gather(s.written(), []arrow.Array{a}, all) // of what is null nothing is left
	if err != nil {
		return nil, err
	}
	return array.MakeFromData(d), nil
}

// within are the values of a field of structs, or of structs in lists.
func within(a arrow.Array, fields []int) (arrow.Array, error) {
	if len(fields) == 0 {
		return a, nil
	}
	if s, ok := a.(*array.Struct); ok {
		return within(masked(s.Field(fields[0]), s), fields[1:])
	}
	list := a.(array.ListLike)
	below, err := within(list.ListValues(), fields)
	if err != nil {
		return nil, err
	}
	return listOver(list, below), nil
}

// masked are values that are null where those of another array are.
func masked(a, by arrow.Array) arrow.Array {
	if by.NullN() == 0 || a.DataType().ID() == arrow.NULL {
		return a
	}
	d := a.Data()
	bits := make([]byte, bitutil.BytesForBits(int64(d.Offset()+d.Len())))
	for i := range d.Len() {
		bitutil.SetBitTo(bits, d.Offset()+i, a.IsValid(i) && by.IsValid(i))
	}
	buffers := append([]*memory.Buffer{memory.NewBufferBytes(bits)}, d.Buffers()[1:]...)
	return array.MakeFromData(array.NewData(d.DataType(), d.Len(), buffers, d.Children(), array.UnknownNullCount,
		d.Offset()))
}

// listOver are lists of other values, of which there are as many.
func listOver(list array.ListLike, values arrow.Array) arrow.Array {
	n := list.Len()
	offsets := make([]int32, n+1)
	for i := range n {
		from, to := list.ValueOffsets(i)
		offsets[i], offsets[i+1] = int32(from), int32(to)
	}
	var all spans
	all.take(0, 0, n)
	valid, nulls := gatherValid([]arrow.Array{list}, all, n)
	buffers := []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	return array.MakeFromData(array.NewData(arrow.ListOf(values.DataType()), n, buffers,
		[]arrow.ArrayData{values.Data()}, nulls, 0))
}
