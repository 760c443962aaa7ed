package convert

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// sizeOf is the memory that a record's values take, as far as they belong to its rows.
func sizeOf(rec arrow.Record) (n int64) {
	for _, col := range rec.Columns() {
		n += sizeOfArray(col)
	}
	return n
}

func sizeOfArray(a arrow.Array) int64 {
	if a.Len() == 0 {
		return 0
	}
	n := int64(a.Len()+7) / 8 // nulls
	switch a := a.(type) {
	case array.ListLike:
		from, _ := a.ValueOffsets(0)
		_, to := a.ValueOffsets(a.Len() - 1)
		below := array.NewSlice(a.ListValues(), from, to)
		defer below.Release()
		return n + 4*int64(a.Len()) + sizeOfArray(below)
	case *array.Struct:
		for i := range a.NumField() {
			n += sizeOfArray(a.Field(i))
		}
		return n
	case array.BinaryLike:
		return n + 4*int64(a.Len()) + int64(len(a.ValueBytes()))
	}
	if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
		n += int64(t.BitWidth()) * int64(a.Len()) / 8
	}
	return n
}
