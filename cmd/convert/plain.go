package convert

import (
	"context"
	"errors"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/compute"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// plain is the type that a column of Arrow is written with: nulls may be everywhere, dictionaries are their values,
// large lists and texts are others, and times of no zone are as arrow's writer tells them.
func plain(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return plain(t.ValueType)
	case *arrow.ListType:
		return arrow.ListOf(plain(t.Elem()))
	case *arrow.LargeListType:
		return arrow.ListOf(plain(t.Elem()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOf(t.Len(), plain(t.Elem()))
	case *arrow.MapType:
		return arrow.MapOf(plain(t.KeyType()), plain(t.ItemType()))
	case *arrow.StructType:
		fields := make([]arrow.Field, len(t.Fields()))
		for i, f := range t.Fields() {
			fields[i] = arrow.Field{Name: f.Name, Type: plain(f.Type), Nullable: true}
		}
		return arrow.StructOf(fields...)
	case *arrow.TimestampType:
		unit := max(t.Unit, arrow.Millisecond) // Parquet counts no seconds
		if t.TimeZone == "" {
			return &arrow.TimestampType{Unit: unit, TimeZone: local}
		}
		return &arrow.TimestampType{Unit: unit, TimeZone: "UTC"} // Parquet knows no other
	case *arrow.Time32Type:
		return arrow.FixedWidthTypes.Time32ms
	case *arrow.Date64Type:
		return arrow.FixedWidthTypes.Date32
	}
	return t
}

var (
	errNullList = errors.New("null lists of a fixed size are not converted: cast the column to a list")
	errLongText = errors.New("its lists' texts have more than 2 GiB in one record batch: write smaller batches")
	errLongList = errors.New("its lists have more than 2^31 values in one record batch: write smaller batches")
)

// plainData makes of values what their plain type holds; columnsOf gives them that type.
func plainData(ctx context.Context, d arrow.ArrayData) (arrow.ArrayData, error) {
	if inMemory(d.DataType()) {
		cast, err := compute.CastArray(ctx, array.MakeFromData(d), compute.SafeCastOptions(plain(d.DataType())))
		if err != nil {
			return nil, err
		}
		return cast.Data(), nil
	}
	switch d.DataType().ID() {
	case arrow.DICTIONARY:
		values := array.NewDictionaryData(d)
		if takenBytes(values) > math.MaxInt32 {
			return nil, errLongText
		}
		return taken(ctx, values)
	case arrow.FIXED_SIZE_LIST:
		if d.NullN() != 0 {
			return nil, errNullList
		}
	}
	buffers, err := shortOffsets(d)
	if err != nil || len(d.Children()) == 0 {
		return d, err
	}
	below := make([]arrow.ArrayData, len(d.Children()))
	for i, c := range d.Children() {
		if below[i], err = plainData(ctx, c); err != nil {
			return nil, err
		}
	}
	return array.NewData(d.DataType(), d.Len(), buffers, below, d.NullN(), d.Offset()), nil
}

// inMemory reports whether Parquet has no such times: in seconds, or dates in milliseconds.
func inMemory(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.TimestampType:
		return t.Unit == arrow.Second
	case *arrow.Time32Type:
		return t.Unit == arrow.Second
	}
	return t.ID() == arrow.DATE64
}

// shortOffsets are the buffers of an array, those of a large list as a list has them.
func shortOffsets(d arrow.ArrayData) ([]*memory.Buffer, error) {
	if d.DataType().ID() != arrow.LARGE_LIST || d.Buffers()[1] == nil {
		return d.Buffers(), nil
	}
	long := arrow.Int64Traits.CastFromBytes(d.Buffers()[1].Bytes())
	short := make([]int32, len(long))
	for i, at := range long {
		if at > math.MaxInt32 {
			return nil, errLongList
		}
		short[i] = int32(at)
	}
	return []*memory.Buffer{d.Buffers()[0], memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(short))}, nil
}

// taken are the values that a dictionary stands for.
func taken(ctx context.Context, d *array.Dictionary) (arrow.ArrayData, error) {
	values, err := compute.TakeArray(ctx, d.Dictionary(), d.Indices())
	if err != nil {
		return nil, err
	}
	return plainData(ctx, values.Data())
}

func isDictionary(t arrow.DataType) bool { return t.ID() == arrow.DICTIONARY }

// longest is how many bytes the longest of the values has.
func longest(values arrow.Array) (n int64) {
	for i := range values.Len() {
		n = max(n, sizeOfArray(array.NewSlice(values, int64(i), int64(i+1))))
	}
	return n
}

// takenBytes is how many bytes the values have that a dictionary stands for.
func takenBytes(d *array.Dictionary) (n int64) {
	sizes := make([]int64, d.Dictionary().Len())
	for i := range sizes {
		sizes[i] = sizeOfArray(array.NewSlice(d.Dictionary(), int64(i), int64(i+1)))
	}
	for i := range d.Len() {
		if d.IsValid(i) {
			n += sizes[d.GetValueIndex(i)]
		}
	}
	return n
}
