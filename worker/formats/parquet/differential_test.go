package parquet

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
)

// elementTypes are the types of values that files are made of.
var elementTypes = []arrow.DataType{
	arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32,
	arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32,
	arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, &arrow.FixedSizeBinaryType{
		ByteWidth: 5,
	},
	arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us, &arrow.Decimal128Type{Precision: 7, Scale: 2},
	&arrow.Decimal128Type{Precision: 15, Scale: 3}, &arrow.Decimal128Type{Precision: 30, Scale: 4},
	arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int16, arrow.FixedWidthTypes.Float16,
}

// testSchema has each type in each shape.
func testSchema() *arrow.Schema {
	var fields []arrow.Field
	add := func(name string, t arrow.DataType, nullable bool) {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("%s_%d", name, len(fields)), Type: t, Nullable: nullable})
	}
	for _, t := range elementTypes {
		add("required", t, false)
		add("optional", t, true)
		add("required_list_required", arrow.ListOfNonNullable(t), false)
		add("optional_list_required", arrow.ListOfNonNullable(t), true)
		add("required_list_optional", arrow.ListOf(t), false)
		add("optional_list_optional", arrow.ListOf(t), true)
		add("optional_struct", arrow.StructOf(arrow.Field{Name: "f", Type: t, Nullable: true}), true)
		add("list_struct", arrow.ListOf(arrow.StructOf(arrow.Field{Name: "f", Type: t, Nullable: true})), true)
		add("optional_struct_list", arrow.StructOf(arrow.Field{Name: "f", Type: arrow.ListOf(t), Nullable: true}), true)
	}
	for _, t := range elementTypes {
		add("lists", arrow.ListOf(arrow.ListOf(t)), true)
	}
	add("required_lists_required", arrow.ListOfNonNullable(arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int16)), false)
	add("deep", arrow.ListOf(arrow.ListOfNonNullable(arrow.ListOf(arrow.PrimitiveTypes.Int64))), true)
	add("struct_lists", arrow.StructOf(arrow.Field{
		Name: "f", Type: arrow.ListOfNonNullable(arrow.ListOf(arrow.FixedWidthTypes.Float16)), Nullable: true,
	}), true)
	return arrow.NewSchema(fields, nil)
}

// generator makes random values: runs and repetitions as they occur, in proportions that vary by column.
type generator struct {
	*rand.Rand
	nulls  float64
	spread int     // about the number of distinct values
	length int     // of lists, at most
	ones   float64 // lists of one value, beside those of a random length
}

func (g *generator) fill(b array.Builder, nullable bool) {
	if nullable && g.Float64() < g.nulls {
		b.AppendNull()
		return
	}
	v := g.IntN(g.spread)
	switch b := b.(type) {
	case *array.ListBuilder:
		b.Append(true)
		n := g.IntN(g.length + 1)
		if g.Float64() < g.ones {
			n = 1
		}
		if _, ok := b.ValueBuilder().(*array.ListBuilder); ok && g.length > 3 {
			short := *g
			short.length, g = 3, &short // arrow's writer hangs if a row has more values than a batch
			n = min(n, 3)
		}
		for range n {
			g.fill(b.ValueBuilder(), b.Type().(*arrow.ListType).ElemField().Nullable)
		}
	case *array.StructBuilder:
		b.Append(true)
		g.fill(b.FieldBuilder(0), true)
	case *array.BooleanBuilder:
		b.Append(v%3 == 0)
	case *array.Int8Builder:
		b.Append(int8(v))
	case *array.Uint8Builder:
		b.Append(uint8(v * 7))
	case *array.Int16Builder:
		b.Append(int16(v * 77))
	case *array.Uint16Builder:
		b.Append(uint16(v * 77))
	case *array.Int32Builder:
		b.Append(int32(v*104729) - 1<<30)
	case *array.Uint32Builder:
		b.Append(uint32(v * 2654435761))
	case *array.Int64Builder:
		b.Append(int64(v) * -7046029254386353131)
	case *array.Uint64Builder:
		b.Append(uint64(v) * 0x9E3779B97F4A7C15)
	case *array.Float16Builder:
		b.Append(float16.New(float32(v) / 8))
	case *array.Float32Builder:
		b.Append(float32(v) / 7)
	case *array.Float64Builder:
		b.Append(float64(v) / -7)
	case *array.StringBuilder:
		b.Append(fmt.Sprintf("value-%d", v)[:g.IntN(3)+4])
	case *array.BinaryBuilder:
		b.Append([]byte(fmt.Sprint(v, v%5))[:v%3])
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte(fmt.Sprintf("%05d", v%100000)))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v) * 1e9)
	case *array.Decimal128Builder:
		p := b.Type().(*arrow.Decimal128Type).Precision
		d := decimal128.FromI64(int64(v*9973%9999999) - 4999999)
		if p > 20 {
			d = d.Mul(decimal128.FromI64(1<<53 + 1)).Mul(decimal128.FromI64(12345))
		}
		b.Append(d)
	default:
		panic(fmt.Sprintf("%T", b))
	}
}

// randomTable makes a table of rows.
func randomTable(seed uint64, schema *arrow.Schema, rows int) arrow.Table {
	columns := make([]arrow.Column, schema.NumFields())
	r := rand.New(rand.NewPCG(seed, 1))
	for i, f := range schema.Fields() {
		g := &generator{
			Rand:   r,
			nulls:  []float64{0, 0.02, 0.3, 1}[r.IntN(4)],
			spread: []int{1, 2, 40, 1000, 1 << 20}[r.IntN(5)],
			length: []int{0, 3, 30}[r.IntN(3)],
			ones:   []float64{0, 0.99, 1}[r.IntN(3)],
		}
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		for range rows {
			g.fill(b, f.Nullable)
		}
		chunked := arrow.NewChunked(f.Type, []arrow.Array{b.NewArray()})
		columns[i] = *arrow.NewColumn(f, chunked)
	}
	return array.NewTable(schema, columns, int64(rows))
}

var testCodecs = []compress.Compression{
	compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Zstd, compress.Codecs.Gzip,
	compress.Codecs.Brotli,
}

// TestAgainstArrow decodes what arrow wrote with random settings, and compares with what was written.
func TestAgainstArrow(t *testing.T) {
	rounds := uint64(20)
	if testing.Short() {
		rounds = 8
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { checkAgainstArrow(t, seed) })
	}
}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func checkAgainstArrow(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	rows, groupRows := oneOf(r, 0, 1, 63, 64, 65, 300, 1500), oneOf[int64](r, 64, 500, 2000)
	options := []parquet.WriterProperty{
		parquet.WithCompression(oneOf(r, testCodecs...)),
		parquet.WithDictionaryDefault(r.IntN(2) == 0),
		parquet.WithDataPageSize(oneOf[int64](r, 1, 100, 3000, 1<<20)),
		parquet.WithBatchSize(oneOf[int64](r, 64, 1024)), // arrow's writer hangs if a list is longer than a batch
		// A small limit makes a chunk begin with indices and go on with plain values.
		parquet.WithDictionaryPageSizeLimit(oneOf[int64](r, 200, 1<<20)),
		parquet.WithDataPageVersion(oneOf(r, parquet.DataPageV1, parquet.DataPageV2)),
		parquet.WithCreatedBy(oneOf(r, "arrow", "parquet-mr version 1.2.8")), // chunks may be longer than that says
	}
	schema := testSchema()
	table := randomTable(seed, schema, rows)
	data := writeTable(t, table, groupRows, options...)
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(sourcesOf(f)); n != schema.NumFields() {
		t.Fatalf("%d columns can be read, want %d", n, schema.NumFields())
	}
	d := NewDecoder(withOwn(f), testMemory)
	window, skip := oneOf(r, 1, 3, 64, 100, 1<<20), r.IntN(int(groupRows)+1)
	got, err := decodeAll(d, f, data, window, 0)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := decodePieces(d, f, data, window, skip)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range d.sources {
		column := table.Column(table.Schema().FieldIndices(s.GetPath()[0])[0])
		compare(t, s.GetName(), got[i], arrowRows(column.Data(), s.GetType().GetKind()))
		compare(t, s.GetName()+" after a skip", rest[i], withoutFirst(got[i], f, skip))
	}
}
