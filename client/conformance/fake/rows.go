package fake

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Metadata of a field or schema: keys and values in turn.
func Metadata(kv ...string) arrow.Metadata {
	m := make(map[string]string)
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return arrow.MetadataFrom(m)
}

// recent is the length of the padded column.
const recent = 4

// Schema has a column of each layout. Unlike those of workers its lists may hold nulls: Arrow's builders do not know
// others.
func Schema() *arrow.Schema {
	scored := arrow.StructOf(arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32})
	field := func(name string, t arrow.DataType, kv ...string) arrow.Field {
		return arrow.Field{Name: name, Type: t, Metadata: Metadata(kv...)}
	}
	return arrow.NewSchema([]arrow.Field{
		field("dense", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), "penstock.layout", "dense",
			"penstock.names", `["a","b"]`),
		field("ids", arrow.ListOf(arrow.PrimitiveTypes.Int64), "penstock.layout", "sparse"),
		field("sizes", arrow.ListOf(arrow.PrimitiveTypes.Float32), "penstock.layout", "sparse"),
		field("scored", arrow.ListOf(scored), "penstock.layout", "sparse"),
		field("label", arrow.PrimitiveTypes.Int64, "penstock.layout", "label"),
		field("click", arrow.FixedWidthTypes.Boolean, "penstock.layout", "label"),
		field("text", arrow.BinaryTypes.Binary, "penstock.layout", "bytes"),
		field("pixel", arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Uint8), "penstock.layout", "image",
			"penstock.shape", "2,2,1"),
		field("matrix", arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Uint16), "penstock.layout", "tensor",
			"penstock.shape", "2,2", "penstock.dtype", "bfloat16"),
		field("flags", arrow.PrimitiveTypes.Uint8, "penstock.layout", "tensor", "penstock.shape", "",
			"penstock.dtype", "bool"),
		field("moments", arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int64), "penstock.layout", "tensor",
			"penstock.shape", "3", "penstock.dtype", "int64"),
		field("recent", arrow.StructOf(
			arrow.Field{Name: "values", Type: arrow.FixedSizeListOf(recent, arrow.PrimitiveTypes.Int64)},
			arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32}), "penstock.layout", "padded",
			"penstock.shape", "4", "penstock.dtype", "int64", "penstock.value", "-1", "penstock.side", "left"),
		field("words", arrow.ListOf(arrow.BinaryTypes.Binary), "penstock.layout", "bytes"),
		field("_file", arrow.PrimitiveTypes.Int32, "penstock.layout", "provenance"),
		field("_row", arrow.PrimitiveTypes.Int64, "penstock.layout", "provenance"),
	}, nil)
}

// program is one whose tensors have Schema.
func program() []byte {
	typed := func(kind pb.Kind) *pb.Type { return &pb.Type{Kind: kind} }
	p := &pb.Program{Provenance: true, Outputs: []*pb.Output{
		{Name: "dense", Layout: pb.Layout_DENSE, Slots: []uint32{0, 1}, Columns: []string{"a", "b"}},
		{Name: "ids", Layout: pb.Layout_SPARSE, Type: typed(pb.Kind_INT64)},
		{Name: "sizes", Layout: pb.Layout_SPARSE, Type: typed(pb.Kind_FLOAT32)},
		{Name: "scored", Layout: pb.Layout_SPARSE, Type: typed(pb.Kind_INT64), Weights: proto.Uint32(2)},
		{Name: "label", Layout: pb.Layout_LABEL, Type: typed(pb.Kind_INT64)},
		{Name: "click", Layout: pb.Layout_LABEL, Type: typed(pb.Kind_BOOL)},
		{Name: "text", Layout: pb.Layout_BYTES},
		{Name: "pixel", Layout: pb.Layout_IMAGE, Shape: []int32{2, 2, 1}},
		{Name: "matrix", Layout: pb.Layout_TENSOR, Type: typed(pb.Kind_BFLOAT16), Shape: []int32{2, 2}},
		{Name: "flags", Layout: pb.Layout_TENSOR, Type: typed(pb.Kind_BOOL)},
		{Name: "moments", Layout: pb.Layout_TENSOR, Type: typed(pb.Kind_INT64), Shape: []int32{3}},
		{
			Name: "recent", Layout: pb.Layout_PADDED, Type: typed(pb.Kind_INT64), Shape: []int32{recent}, Left: true,
			Fill: &pb.Value{Kind: &pb.Value_Int{Int: -1}},
		},
		{Name: "words", Layout: pb.Layout_BYTES, Type: &pb.Type{Kind: pb.Kind_BINARY, List: true}},
	}}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
	if err != nil {
		panic(err)
	}
	return b
}

// Padding is the record of so many rows of padding.
func Padding(rows int) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, Schema())
	defer b.Release()
	for range rows {
		for i := range 11 {
			b.Field(i).AppendEmptyValue()
		}
		appendRecent(b.Field(11), nil)
		b.Field(12).AppendEmptyValue()
		b.Field(13).(*array.Int32Builder).Append(-1)
		b.Field(14).(*array.Int64Builder).Append(-1)
	}
	return b.NewRecord()
}

// Values is how many sparse values a row has, and how many words.
func Values(id int64) int { return int(id % 4) }

// Recent are the values of "recent" in the row with number n (its "_row"): of the n%6 numbers that end with n the last
// four, or all.
func Recent(n int) (values []int64) {
	for k := n - min(n%6, recent) + 1; k <= n; k++ {
		values = append(values, int64(k))
	}
	return values
}

// Rows is the record of rows. Column "label" holds their ids. Those of tensors of fixed shape follow from a row's
// number n in its window, which is its "_row":
//
//	matrix[i, j]  bfloat16 whose bits are 4*n + 2*i + j
//	flags         whether n is odd
//	moments[k]    3*n + k
//	recent        Recent(n), padded on the left with -1
func Rows(rows []Row) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, Schema())
	defer b.Release()
	dense := b.Field(0).(*array.FixedSizeListBuilder)
	ids, sizes, scored := b.Field(1).(*array.ListBuilder), b.Field(2).(*array.ListBuilder),
		b.Field(3).(*array.ListBuilder)
	pair := scored.ValueBuilder().(*array.StructBuilder)
	pixel := b.Field(7).(*array.FixedSizeListBuilder)
	for _, r := range rows {
		id := r.ID()
		dense.Append(true)
		dense.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(r.Window), float32(r.K)}, nil)
		ids.Append(true)
		sizes.Append(true)
		scored.Append(true)
		for j := range Values(id) {
			ids.ValueBuilder().(*array.Int64Builder).Append(id + int64(j))
			sizes.ValueBuilder().(*array.Float32Builder).Append(float32(r.K) + float32(j))
			pair.Append(true)
			pair.FieldBuilder(0).(*array.Int64Builder).Append(id * int64(j))
			pair.FieldBuilder(1).(*array.Float32Builder).Append(float32(j) / 2)
		}
		b.Field(4).(*array.Int64Builder).Append(id)
		b.Field(5).(*array.BooleanBuilder).Append(r.K%3 == 0)
		b.Field(6).(*array.BinaryBuilder).Append([]byte(fmt.Sprint(id)))
		pixel.Append(true)
		pixel.ValueBuilder().(*array.Uint8Builder).AppendValues([]byte{byte(r.K), 1, 2, byte(r.Window)}, nil)
		appendTensors(b, r.K)
		appendWords(b.Field(12).(*array.ListBuilder), id)
		b.Field(13).(*array.Int32Builder).Append(int32(r.Shard))
		b.Field(14).(*array.Int64Builder).Append(int64(r.K))
	}
	return b.NewRecord()
}

// appendWords appends a list of id%4 byte strings: the digits of id, fewer in each than in the one before.
func appendWords(b *array.ListBuilder, id int64) {
	b.Append(true)
	for j, digits := 0, fmt.Sprint(id); j < Values(id); j++ {
		b.ValueBuilder().(*array.BinaryBuilder).Append([]byte(digits[min(j, len(digits)):]))
	}
}

func appendTensors(b *array.RecordBuilder, n int) {
	matrix, moments := b.Field(8).(*array.FixedSizeListBuilder), b.Field(10).(*array.FixedSizeListBuilder)
	matrix.Append(true)
	for i := range 4 {
		matrix.ValueBuilder().(*array.Uint16Builder).Append(uint16(4*n + i))
	}
	b.Field(9).(*array.Uint8Builder).Append(byte(n % 2))
	moments.Append(true)
	for k := range 3 {
		moments.ValueBuilder().(*array.Int64Builder).Append(int64(3*n + k))
	}
	appendRecent(b.Field(11), Recent(n))
}

// appendRecent appends a padded row.
func appendRecent(b array.Builder, values []int64) {
	row := b.(*array.StructBuilder)
	row.Append(true)
	list := row.FieldBuilder(0).(*array.FixedSizeListBuilder)
	list.Append(true)
	for range recent - len(values) {
		list.ValueBuilder().(*array.Int64Builder).Append(-1)
	}
	list.ValueBuilder().(*array.Int64Builder).AppendValues(values, nil)
	row.FieldBuilder(1).(*array.Int32Builder).Append(int32(len(values)))
}
