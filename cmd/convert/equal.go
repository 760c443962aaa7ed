package convert

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"
)

// written is a type as Parquet files have it: what differs in memory only is one type there.
func written(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.FixedSizeListType:
		return arrow.ListOf(written(t.Elem()))
	case *arrow.ListType:
		return arrow.ListOf(written(t.Elem()))
	case *arrow.MapType:
		return arrow.MapOf(written(t.KeyType()), written(t.ItemType()))
	case *arrow.StructType:
		fields := make([]arrow.Field, len(t.Fields()))
		for i, f := range t.Fields() {
			fields[i] = arrow.Field{Name: f.Name, Type: written(f.Type), Nullable: true}
		}
		return arrow.StructOf(fields...)
	case *arrow.LargeStringType:
		return arrow.BinaryTypes.String
	case *arrow.LargeBinaryType:
		return arrow.BinaryTypes.Binary
	}
	return t
}

// equalRuns reports whether n values of two arrays of the same written type are plainly equal: they may be so, too, if
// it reports false.
func equalRuns(a arrow.Array, i int, b arrow.Array, j, n int) bool {
	width := widthOf(a.DataType())
	if width == 0 || a.NullN() != 0 || b.NullN() != 0 {
		return false
	}
	return bytes.Equal(fixed(a, width, i, n), fixed(b, width, j, n))
}

// equal reports whether two values are the same: bit for bit, but for NaNs, which are all one.
func equal(a arrow.Array, i int, b arrow.Array, j int) bool {
	if a.IsNull(i) || b.IsNull(j) {
		return a.IsNull(i) && b.IsNull(j)
	}
	switch a := a.(type) {
	case *array.Null:
		return true
	case *array.Boolean:
		return a.Value(i) == b.(*array.Boolean).Value(j)
	case *array.Struct:
		b := b.(*array.Struct)
		for f := range a.NumField() {
			if !equal(a.Field(f), i, b.Field(f), j) {
				return false
			}
		}
		return true
	case array.ListLike:
		return equalLists(a, i, b.(array.ListLike), j)
	case array.BinaryLike:
		return bytes.Equal(textOf(a, i), textOf(b.(array.BinaryLike), j))
	}
	width := widthOf(a.DataType())
	inA, inB := fixed(a, width, i, 1), fixed(b, width, j, 1)
	return bytes.Equal(inA, inB) || isNaN(a.DataType(), inA) && isNaN(a.DataType(), inB)
}

func equalLists(a array.ListLike, i int, b array.ListLike, j int) bool {
	fromA, toA := a.ValueOffsets(i)
	fromB, toB := b.ValueOffsets(j)
	if toA-fromA != toB-fromB {
		return false
	}
	for k := range int(toA - fromA) {
		if !equal(a.ListValues(), int(fromA)+k, b.ListValues(), int(fromB)+k) {
			return false
		}
	}
	return true
}

func textOf(a array.BinaryLike, i int) []byte {
	from := a.ValueOffset64(i) - a.ValueOffset64(0)
	return a.ValueBytes()[from : from+int64(a.ValueLen(i))]
}

// widthOf is how many bytes each value of a type takes; 0 if that differs, or is none.
func widthOf(t arrow.DataType) int {
	if t, ok := t.(arrow.FixedWidthDataType); ok && t.BitWidth()%8 == 0 {
		return t.BitWidth() / 8
	}
	return 0
}

// fixed are the bytes of n values of fixed width.
func fixed(a arrow.Array, width, i, n int) []byte {
	if n == 0 {
		return nil // there may be no buffer
	}
	from := (a.Data().Offset() + i) * width
	return a.Data().Buffers()[1].Bytes()[from : from+n*width]
}

func isNaN(t arrow.DataType, b []byte) bool {
	switch t.ID() {
	case arrow.FLOAT16:
		return math.IsNaN(float64(float16.FromBits(binary.LittleEndian.Uint16(b)).Float32()))
	case arrow.FLOAT32:
		return math.IsNaN(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case arrow.FLOAT64:
		return math.IsNaN(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return false
}
