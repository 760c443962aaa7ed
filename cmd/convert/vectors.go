package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/vector"
)

// sourceOf is how a column is decoded, and the type that it has then. One of which only nulls were seen is text.
// Or ends the words of what to do with one that is not.
func sourceOf(c *spec.Column, or string) (arrow.DataType, *pb.Source, error) {
	if c.Key != pb.Kind_KIND_UNSPECIFIED || c.Unsupported != "" && !c.Untyped {
		why := c.Unsupported
		if why == "" {
			why = "a map"
		}
		return nil, nil, fmt.Errorf("column %s cannot be converted: it is %s; name the others by --columns%s", c.Name,
			why, or)
	}
	t, text := c.Type, c.Text
	if c.Untyped {
		t.Kind, text = pb.Kind_BINARY, true
	}
	if c.Own != pb.Kind_KIND_UNSPECIFIED && c.Own != pb.Kind_BFLOAT16 {
		t.Kind = c.Own
	}
	of, ok := scalarType(c, t.Kind, text)
	if !ok {
		return nil, nil, fmt.Errorf("column %s cannot be converted: it is %s, %s; name the others by --columns",
			c.Name, t, c.Meaning)
	}
	if t.List {
		for range t.Nested + 1 {
			of = arrow.ListOf(of)
		}
	}
	return of, &pb.Source{Name: c.Name, Path: c.Path, Field: c.Field, Type: t.Proto(), Meaning: c.Meaning}, nil
}

// scalarType is the type of a column's values, or of the elements of its lists.
func scalarType(c *spec.Column, kind pb.Kind, text bool) (arrow.DataType, bool) {
	zone := "UTC"
	if c.Clock == "local" {
		zone = local
	}
	if c.Meaning != "" {
		of, ok := map[string]arrow.DataType{
			format.Unsigned: arrow.PrimitiveTypes.Uint64,
			"timestamp[ms]": &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: zone},
			"timestamp[us]": &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: zone},
			"timestamp[ns]": &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: zone},
		}[c.Meaning]
		return of, ok
	}
	switch {
	case c.Date:
		return arrow.FixedWidthTypes.Date32, true
	case text:
		return arrow.BinaryTypes.String, true
	}
	of, ok := map[pb.Kind]arrow.DataType{
		pb.Kind_BOOL:    arrow.FixedWidthTypes.Boolean,
		pb.Kind_INT8:    arrow.PrimitiveTypes.Int8,
		pb.Kind_INT16:   arrow.PrimitiveTypes.Int16,
		pb.Kind_INT32:   arrow.PrimitiveTypes.Int32,
		pb.Kind_INT64:   arrow.PrimitiveTypes.Int64,
		pb.Kind_UINT8:   arrow.PrimitiveTypes.Uint8,
		pb.Kind_UINT16:  arrow.PrimitiveTypes.Uint16,
		pb.Kind_UINT32:  arrow.PrimitiveTypes.Uint32,
		pb.Kind_FLOAT16: arrow.FixedWidthTypes.Float16,
		pb.Kind_FLOAT32: arrow.PrimitiveTypes.Float32,
		pb.Kind_FLOAT64: arrow.PrimitiveTypes.Float64,
		pb.Kind_BINARY:  arrow.BinaryTypes.Binary,
	}[kind]
	return of, ok
}

// dataOf copies a vector, whose memory is used again.
func dataOf(v *vector.Vector, t arrow.DataType) arrow.ArrayData {
	if !v.Type.List {
		return valuesOf(v, v.Rows, v.Valid, t)
	}
	return listsOf(v, t, v.Rows, vector.Level{Offsets: v.Offsets, Valid: v.Valid}, v.Nested)
}

// listsOf copies n lists, below which others may be.
func listsOf(v *vector.Vector, t arrow.DataType, n int, level vector.Level, below []vector.Level) arrow.ArrayData {
	inner, total := t.(*arrow.ListType).Elem(), int(level.Offsets[n])
	var child arrow.ArrayData
	if len(below) > 0 {
		child = listsOf(v, inner, total, below[0], below[1:])
	} else {
		child = valuesOf(v, total, v.ElemValid, inner)
	}
	bits, nulls := bitsOf(level.Valid, n)
	offsets := bytes.Clone(arrow.Int32Traits.CastToBytes(level.Offsets[:n+1]))
	buffers := []*memory.Buffer{bits, memory.NewBufferBytes(offsets)}
	return array.NewData(t, n, buffers, []arrow.ArrayData{child}, nulls, 0)
}

// valuesOf copies n values.
func valuesOf(v *vector.Vector, n int, valid []uint64, t arrow.DataType) arrow.ArrayData {
	bits, nulls := bitsOf(valid, n)
	buffers := []*memory.Buffer{bits}
	var values []byte
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		values = make([]byte, bitutil.BytesForBits(int64(n)))
		for i, is := range v.Bool[:n] {
			bitutil.SetBitTo(values, i, is)
		}
	case pb.Kind_INT32:
		values = bytes.Clone(arrow.Int32Traits.CastToBytes(v.I32[:n]))
	case pb.Kind_INT64:
		values = bytes.Clone(arrow.Int64Traits.CastToBytes(v.I64[:n]))
	case pb.Kind_FLOAT32:
		values = bytes.Clone(arrow.Float32Traits.CastToBytes(v.F32[:n]))
	case pb.Kind_FLOAT64:
		values = bytes.Clone(arrow.Float64Traits.CastToBytes(v.F64[:n]))
	case pb.Kind_BINARY:
		ends := make([]int32, n+1)
		for i := range ends {
			ends[i] = v.Ends[i] - v.Ends[0]
		}
		buffers = append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(ends)))
		values = bytes.Clone(v.Data[v.Ends[0]:v.Ends[n]])
	default:
		values = bytes.Clone(v.Small[:n*spec.Width(v.Type.Kind)])
	}
	return array.NewData(t, n, append(buffers, memory.NewBufferBytes(values)), nil, nulls, 0)
}

// bitsOf copies a bitmap of which values are not null, and counts the others; nil: none is.
func bitsOf(valid []uint64, n int) (*memory.Buffer, int) {
	if valid == nil {
		return nil, 0
	}
	bits := make([]byte, 0, 8*vector.Words(n))
	for _, word := range valid[:vector.Words(n)] {
		bits = binary.LittleEndian.AppendUint64(bits, word)
	}
	nulls := n - bitutil.CountSetBits(bits, 0, n)
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}
