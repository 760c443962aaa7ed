package fit

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// AddRecord feeds the columns of a record by their names. The record is released once it is read.
func (f *Fit) AddRecord(rec arrow.Record) error {
	columns := make([][]Values, len(f.columns))
	for i, c := range f.columns {
		at := rec.Schema().FieldIndices(c.Name)
		if len(at) != 1 {
			rec.Release()
			return fmt.Errorf("column %s: the record has %d columns of that name, and one is needed", c.Name, len(at))
		}
		v, err := Arrow(rec.Column(at[0]))
		if err != nil {
			rec.Release()
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		columns[i] = v
	}
	return f.Add(columns, rec.Release)
}

// Arrow shows the values of an array, of a list its elements. They lie in the array's memory.
func Arrow(a arrow.Array) ([]Values, error) {
	v := Values{ValidFrom: a.Data().Offset()}
	if a.NullN() > 0 {
		v.Valid = a.NullBitmapBytes()
	}
	switch a := a.(type) {
	case *array.Null:
		return []Values{{Nulls: a.Len()}}, nil
	case *array.Boolean:
		v.Bools = make([]bool, a.Len())
		for i := range v.Bools {
			v.Bools[i] = a.Value(i)
		}
	case *array.Int32:
		v.Int32s = a.Int32Values()
	case *array.Int64:
		v.Int64s = a.Int64Values()
	case *array.Uint64:
		v.Int64s = arrow.Int64Traits.CastFromBytes(arrow.Uint64Traits.CastToBytes(a.Uint64Values()))
	case *array.Float32:
		v.Float32s = a.Float32Values()
	case *array.Float64:
		v.Float64s = a.Float64Values()
	case *array.String:
		v.Data, v.Offsets = texts(a.Data(), a.Len())
	case *array.Binary:
		v.Data, v.Offsets = texts(a.Data(), a.Len())
	case array.ListLike:
		return lists(a)
	default:
		return nil, fmt.Errorf("values of type %s cannot be counted; cast them to bool, int32, int64, uint64, "+
			"float32, float64, string or binary", a.DataType())
	}
	return []Values{v}, nil
}

// texts are an array's bytes, and the offsets of its values in them.
func texts(d arrow.ArrayData, n int) ([]byte, []int32) {
	buffers := d.Buffers()
	if n == 0 || buffers[1] == nil {
		return nil, nil
	}
	offsets := arrow.Int32Traits.CastFromBytes(buffers[1].Bytes())[d.Offset():][:n+1]
	if buffers[2] == nil {
		return nil, offsets // all are empty
	}
	return buffers[2].Bytes(), offsets
}

// lists shows the elements of the rows that are no nulls.
func lists(a array.ListLike) ([]Values, error) {
	var out []Values
	for i := 0; i < a.Len(); {
		if a.IsNull(i) {
			i++
			continue
		}
		from, to := a.ValueOffsets(i)
		for i++; i < a.Len() && a.IsValid(i); i++ {
			next, end := a.ValueOffsets(i)
			if next != to {
				break
			}
			to = end
		}
		part := array.NewSlice(a.ListValues(), from, to)
		v, err := Arrow(part)
		part.Release() // the list has the values
		if err != nil {
			return nil, err
		}
		out = append(out, v...)
	}
	return out, nil
}
