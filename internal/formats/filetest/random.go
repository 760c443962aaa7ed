package filetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// scalars are the types of values that both Arrow's and Parquet's files can hold, as Go's writers write them.
func scalars() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean,
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64,
		arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Uint32,
		arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, &arrow.FixedSizeBinaryType{ByteWidth: 5},
		&arrow.Decimal128Type{Precision: 30, Scale: 4}, arrow.FixedWidthTypes.Date32,
		arrow.FixedWidthTypes.Timestamp_ms, arrow.FixedWidthTypes.Timestamp_us, arrow.FixedWidthTypes.Time32ms,
		arrow.FixedWidthTypes.Time64us,
	}
}

// Schema has a column of each type of scalars, and some nested ones.
func Schema(r *rand.Rand) *arrow.Schema {
	all := scalars()
	one := func() arrow.DataType { return all[r.IntN(len(all))] }
	var fields []arrow.Field
	add := func(t arrow.DataType) {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", len(fields)), Type: t, Nullable: r.IntN(4) > 0})
	}
	for _, t := range all {
		add(t)
	}
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: r.IntN(4) > 0}
	}
	for range 4 {
		add(arrow.ListOf(one()))
		add(arrow.StructOf(field("a", one()), field("b", arrow.ListOf(one())),
			field("c", arrow.StructOf(field("d", one())))))
		add(arrow.ListOf(arrow.StructOf(field("x", one()), field("y", one()))))
	}
	add(arrow.MapOf(arrow.BinaryTypes.String, one()))
	add(arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32))
	add(arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint16))
	for range 2 {
		add(arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.ListOf(one())))
		add(arrow.MapOf(arrow.BinaryTypes.String, arrow.MapOf(arrow.PrimitiveTypes.Int64, one())))
	}
	add(arrow.StructOf(field("m", arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.ListOf(arrow.ListOf(one()))))))
	add(arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOf(one()))))
	// The next two cannot be read.
	add(arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.ListOf(arrow.StructOf(field("z", one())))))
	add(arrow.ListOf(arrow.ListOf(arrow.StructOf(field("z", arrow.PrimitiveTypes.Int32)))))
	for range 3 {
		add(arrow.ListOf(arrow.ListOf(one())))
	}
	add(arrow.ListOf(arrow.ListOf(arrow.ListOf(one()))))
	add(arrow.StructOf(field("e", arrow.ListOf(arrow.ListOf(one())))))
	add(arrow.PrimitiveTypes.Int32)
	return arrow.NewSchema(fields, nil)
}

// Records have so many rows each, of random values and nulls.
func Records(r *rand.Rand, s *arrow.Schema, rows ...int) []arrow.Record {
	var out []arrow.Record
	for _, n := range rows {
		columns := make([]arrow.Array, len(s.Fields()))
		for i, f := range s.Fields() {
			b := array.NewBuilder(memory.DefaultAllocator, f.Type)
			nulls := 0.0
			if f.Nullable {
				nulls = []float64{0, 0.02, 0.5, 1}[r.IntN(4)]
			}
			for range n {
				fill(r, b, f.Type, nulls)
			}
			columns[i] = b.NewArray()
		}
		out = append(out, array.NewRecord(s, columns, int64(n)))
	}
	return out
}

// fill appends a value; fields of structs that may not be null are not.
func fill(r *rand.Rand, b array.Builder, t arrow.DataType, nulls float64) {
	if r.Float64() < nulls {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.MapBuilder:
		b.Append(true)
		mt := t.(*arrow.MapType)
		for range r.IntN(4) {
			fill(r, b.KeyBuilder(), mt.KeyType(), 0)
			fill(r, b.ItemBuilder(), mt.ItemType(), 0.2)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(4) {
			fill(r, b.ValueBuilder(), t.(*arrow.ListType).Elem(), 0.2)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i, f := range t.(*arrow.StructType).Fields() {
			inner := 0.0
			if f.Nullable {
				inner = 0.3
			}
			fill(r, b.FieldBuilder(i), f.Type, inner)
		}
	default:
		scalar(r, b, t)
	}
}

// scalar appends a value that is not null: often a small one, so that some are equal.
func scalar(r *rand.Rand, b array.Builder, t arrow.DataType) {
	n := int64(r.IntN(5))
	if r.IntN(2) == 0 {
		n = int64(r.Uint64()) >> r.IntN(64)
	}
	text := strings.Repeat("x", r.IntN(9)) + fmt.Sprint(n%1000)
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(n&1 == 1)
	case *array.Int8Builder:
		b.Append(int8(n))
	case *array.Int16Builder:
		b.Append(int16(n))
	case *array.Int32Builder:
		b.Append(int32(n))
	case *array.Int64Builder:
		b.Append(n)
	case *array.Uint8Builder:
		b.Append(uint8(n))
	case *array.Uint16Builder:
		b.Append(uint16(n))
	case *array.Uint32Builder:
		b.Append(uint32(n))
	case *array.Uint64Builder:
		b.Append(uint64(n))
	case *array.Float16Builder:
		b.Append(float16.FromBits(uint16(n)))
	case *array.Float32Builder:
		b.Append(float32(n) / 3)
	case *array.Float64Builder:
		b.Append(float64(n) / 3)
	case *array.StringBuilder:
		b.Append(text)
	case *array.BinaryBuilder:
		b.Append([]byte(text))
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte((text + "     ")[:t.(*arrow.FixedSizeBinaryType).ByteWidth]))
	case *array.Decimal128Builder:
		b.Append(decimal128.New(r.Int64N(1<<30)-1<<29, r.Uint64()))
	case *array.Date32Builder:
		b.Append(arrow.Date32(n))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n))
	case *array.Time32Builder:
		b.Append(arrow.Time32(n & 0xffffff))
	case *array.Time64Builder:
		b.Append(arrow.Time64(n & 0xffffffff))
	default:
		panic(fmt.Sprintf("no values of type %s", t))
	}
}
