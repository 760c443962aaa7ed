package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// BenchmarkOpenWide opens a file of thousands of columns, from memory, and decodes the first row group of some of them:
// what a stream does before its first batch. It reports what of the footer is kept then. Arrow only reads the footer.
func BenchmarkOpenWide(b *testing.B) {
	const columns, rowGroups, rows = 5000, 20, 16
	data := manyFile(b, columns, rowGroups, rows)
	b.Run("arrow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := file.NewParquetReader(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{20, columns} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sources := make([]*pb.Source, n)
			for i := range sources {
				name := manyName(i * (columns / n))
				sources[i] = &pb.Source{Name: name, Path: []string{name}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}}
			}
			b.ReportAllocs()
			var kept int64
			for b.Loop() {
				kept = openWide(b, data, sources)
			}
			b.ReportMetric(float64(binary.LittleEndian.Uint32(data[len(data)-8:])), "footer-B")
			b.ReportMetric(float64(kept), "kept-B")
		})
	}
}

func manyName(i int) string { return fmt.Sprintf("feature_%05d", i) }

// manyFile has float32 columns, and statistics of them.
func manyFile(b *testing.B, columns, rowGroups, rows int) []byte {
	fields, values := make([]arrow.Field, columns), make([]arrow.Array, columns)
	for i := range fields {
		fields[i] = arrow.Field{Name: manyName(i), Type: arrow.PrimitiveTypes.Float32, Nullable: true}
		builder := array.NewFloat32Builder(memory.DefaultAllocator)
		for row := range rows {
			builder.Append(float32(i + row))
		}
		values[i] = builder.NewArray()
	}
	schema := arrow.NewSchema(fields, nil)
	records := make([]arrow.Record, rowGroups)
	for i := range records {
		records[i] = array.NewRecord(schema, values, int64(rows))
	}
	return filetest.Parquet(b, schema, records)
}

// openWide returns how many bytes the description has that is kept.
func openWide(b *testing.B, data []byte, sources []*pb.Source) int64 {
	m := &filetest.One{URI: "mem://wide.parquet", Data: data}
	described, err := formats.NewCache(0).Load(b.Context(), m, "", m.File(), nil, sources, nil)
	if err != nil {
		b.Fatal(err)
	}
	f := described.(*footer.File).Footer //nolint:forcetypeassert // it is Parquet
	d := NewDecoder(sources, testMemory)
	chunks, err := chunksOf(d, f, 0, data)
	if err == nil {
		err = d.reset("wide", f, 0, chunks)
	}
	if err == nil {
		_, err = d.Next(int(f.RowGroups[0].Rows))
	}
	if err != nil {
		b.Fatal(err)
	}
	return described.Size()
}
