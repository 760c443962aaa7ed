package parquet

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
)

// kindRows is few enough for an emulator.
const kindRows = 8192

// column1 is a table of one column, each row of which add appends.
func column1(t arrow.DataType, nullable bool, add func(b array.Builder, r *rand.Rand, row int)) arrow.Table {
	b := array.NewBuilder(memory.DefaultAllocator, t)
	r := rand.New(rand.NewPCG(7, 8))
	for row := range kindRows {
		if nullable && r.IntN(20) == 0 {
			b.AppendNull()
		} else {
			add(b, r, row)
		}
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: t, Nullable: nullable}}, nil)
	return array.NewTableFromRecords(schema,
		[]arrow.Record{array.NewRecord(schema, []arrow.Array{b.NewArray()}, kindRows)})
}

// lists has up to most elements a row, or exactly -most.
func lists(most int) func(b array.Builder, r *rand.Rand, row int) {
	return func(b array.Builder, r *rand.Rand, _ int) {
		list := b.(*array.ListBuilder)
		list.Append(true)
		n := -most
		if most > 0 {
			n = r.IntN(most + 1)
		}
		for range n {
			list.ValueBuilder().(*array.Int64Builder).Append(int64(r.IntN(1000)) << 30)
		}
	}
}

// BenchmarkKinds decodes one column of each kind that training data is made of.
func BenchmarkKinds(b *testing.B) {
	plain, ids := parquet.WithDictionaryDefault(false), arrow.ListOf(arrow.PrimitiveTypes.Int64)
	encoded := func(e parquet.Encoding) []parquet.WriterProperty {
		return []parquet.WriterProperty{plain, parquet.WithEncoding(e)}
	}
	floats := func(b array.Builder, r *rand.Rand, _ int) { b.(*array.Float32Builder).Append(r.Float32()) }
	times := func(b array.Builder, r *rand.Rand, row int) {
		b.(*array.Int64Builder).Append(int64(row*1000 + r.IntN(2000)))
	}
	words := func(b array.Builder, r *rand.Rand, _ int) {
		b.(*array.StringBuilder).Append(fmt.Sprint("word ", r.IntN(300)))
	}
	for _, k := range []struct {
		name    string
		table   arrow.Table
		options []parquet.WriterProperty
	}{
		{"floats/plain", column1(arrow.PrimitiveTypes.Float32, false, floats), []parquet.WriterProperty{plain}},
		{"floats/nulls", column1(arrow.PrimitiveTypes.Float32, true, floats), []parquet.WriterProperty{plain}},
		{
			"floats/zstd", column1(arrow.PrimitiveTypes.Float32, false, floats),
			[]parquet.WriterProperty{plain, parquet.WithCompression(compress.Codecs.Zstd)},
		},
		{
			"integers/delta", column1(arrow.PrimitiveTypes.Int64, false, times),
			encoded(parquet.Encodings.DeltaBinaryPacked),
		},
		{"integers/dictionary", column1(arrow.PrimitiveTypes.Int64, false, func(b array.Builder, r *rand.Rand, _ int) {
			b.(*array.Int64Builder).Append(int64(r.IntN(1000)) << 30)
		}), nil},
		{"booleans", column1(arrow.FixedWidthTypes.Boolean, false, func(b array.Builder, r *rand.Rand, _ int) {
			b.(*array.BooleanBuilder).Append(r.IntN(3) == 0)
		}), []parquet.WriterProperty{plain}},
		{"strings/plain", column1(arrow.BinaryTypes.String, false, words), []parquet.WriterProperty{plain}},
		{"strings/dictionary", column1(arrow.BinaryTypes.String, false, words), nil},
		{
			"strings/delta", column1(arrow.BinaryTypes.String, false, words),
			encoded(parquet.Encodings.DeltaLengthByteArray),
		},
		{"lists/ones", column1(ids, true, lists(-1)), nil},
		{"lists/required", column1(ids, false, lists(-1)), nil},
		{"lists/dictionary", column1(ids, true, lists(8)), nil},
		{"lists/plain", column1(ids, true, lists(8)), []parquet.WriterProperty{plain}},
	} {
		options := append(k.options, parquet.WithDataPageVersion(parquet.DataPageV2))
		b.Run(k.name, func(b *testing.B) { benchColumns(b, writeTable(b, k.table, kindRows, options...), kindRows) })
	}
}

func benchColumns(b *testing.B, data []byte, rows int) {
	f, err := readFooter(data)
	if err != nil {
		b.Fatal(err)
	}
	benchSources(b, data, sourcesOf(f), rows)
}

func benchSources(b *testing.B, data []byte, sources []*pb.Source, rows int) {
	b.ReportAllocs()
	f, err := readFooter(data)
	if err != nil {
		b.Fatal(err)
	}
	d := NewDecoder(sources, testMemory)
	for b.Loop() {
		chunks, err := chunksOf(d, f, 0, data)
		if err == nil {
			err = d.reset("bench", f, 0, chunks)
		}
		for left := rows; left > 0 && err == nil; left -= 4096 {
			_, err = d.Next(4096)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
