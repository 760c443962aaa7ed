package read

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// numbersOf shows the bytes of a tensor's values as an array. Floats of 16 bits become float32, which has all of them
// and which every reader knows.
func numbersOf(dtype string, data []byte) arrow.Array {
	switch dtype {
	case "bool":
		b := array.NewBooleanBuilder(memory.DefaultAllocator)
		for _, v := range data {
			b.Append(v != 0)
		}
		return b.NewArray()
	case "float16":
		return widened(data, format.Float16)
	case "bfloat16":
		return widened(data, func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) })
	}
	kind := spec.KindNamed(dtype)
	t, _ := tensors.Element(kind) // the client has checked it
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(data)}
	return array.MakeFromData(array.NewData(t, len(data)/spec.Width(kind), buffers, nil, 0, 0))
}

func widened(data []byte, wide func(uint16) float32) arrow.Array {
	b := array.NewFloat32Builder(memory.DefaultAllocator)
	for _, h := range client.Values[uint16](data) {
		b.Append(wide(h))
	}
	return b.NewArray()
}

// tensorValue is row i of a tensor of so many rows.
func tensorValue(t client.Tensor, i, rows int, brief bool) any {
	size := len(t.Data) / rows
	values := cells(t.Dtype, t.Data[i*size:][:size])
	if brief && len(values) > mostShown {
		return fmt.Sprintf("%s %v", t.Dtype, t.Shape)
	}
	return nested(values, t.Shape)
}

// cells are a row's values as JSON can write them.
func cells(dtype string, data []byte) []any {
	values := numbersOf(dtype, data)
	out := make([]any, values.Len())
	for i := range out {
		switch x := values.GetOneForMarshal(i).(type) {
		case float32:
			out[i] = number(x)
		case float64:
			out[i] = number(x)
		default:
			out[i] = x
		}
	}
	return out
}

// nested are a row's values in lists of lists, or the one of a scalar.
func nested(values []any, shape []int) any {
	switch len(shape) {
	case 0:
		return values[0]
	case 1:
		return values
	}
	out := make([]any, shape[0])
	n := len(values) / len(out)
	for i := range out {
		out[i] = nested(values[i*n:][:n], shape[1:])
	}
	return out
}

// unpadded is what a padded row of so many bytes has of n values, of length.
func unpadded(row []byte, length int, n int32, left bool) []byte {
	own := len(row) / length * int(n)
	if left {
		return row[len(row)-own:]
	}
	return row[:own]
}

// tensorColumn is a tensor as Parquet readers take it best: a column of scalars, or of lists.
func tensorColumn(f arrow.Field, column arrow.Array) arrow.Array {
	dtype, _ := f.Metadata.GetValue(tensors.Dtype)
	list, ok := column.(*array.FixedSizeList)
	if !ok {
		return numbersOf(dtype, column.Data().Buffers()[1].Bytes())
	}
	return evenLists(numbersOf(dtype, list.ListValues().Data().Buffers()[1].Bytes()), list)
}

// paddedColumn has lists of the values alone: what is filled up to which length follows from the spec.
func paddedColumn(f arrow.Field, column *array.Struct) arrow.Array {
	dtype, _ := f.Metadata.GetValue(tensors.Dtype)
	side, _ := f.Metadata.GetValue(tensors.Side)
	list := column.Field(0).(*array.FixedSizeList)
	length := int(list.DataType().(*arrow.FixedSizeListType).Len())
	rows := list.ListValues().Data().Buffers()[1].Bytes()
	size := len(rows) / max(1, list.Len())
	var data []byte
	offsets := []int32{0}
	for i, n := range column.Field(1).(*array.Int32).Int32Values() {
		data = append(data, unpadded(rows[i*size:][:size], length, n, side == "left")...)
		offsets = append(offsets, offsets[i]+n)
	}
	return lists(numbersOf(dtype, data), offsets)
}

// evenLists shows values as lists that are as long as a column's rows.
func evenLists(values arrow.Array, rows *array.FixedSizeList) arrow.Array {
	offsets := make([]int32, rows.Len()+1)
	for i := range rows.Len() {
		_, to := rows.ValueOffsets(i)
		offsets[i+1] = int32(to)
	}
	return lists(values, offsets)
}

func lists(values arrow.Array, offsets []int32) arrow.Array {
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	t := arrow.ListOfNonNullable(values.DataType())
	return array.NewListData(array.NewData(t, len(offsets)-1, buffers, []arrow.ArrayData{values.Data()}, 0, 0))
}
