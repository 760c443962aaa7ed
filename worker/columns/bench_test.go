package columns

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

const benchRows = 32768

// clicks is a table in Criteo's shape: a label, 13 numbers with nulls, 26 lists of ids, few of which are frequent.
var clicks = sync.OnceValue(func() arrow.Table {
	r := rand.New(rand.NewPCG(3, 4))
	ids := rand.NewZipf(r, 1.2, 8, 1<<20)
	var fields []arrow.Field
	var arrays []arrow.Array
	add := func(name string, nullable bool, b array.Builder) {
		a := b.NewArray()
		fields = append(fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: nullable})
		arrays = append(arrays, a)
	}
	label := array.NewInt32Builder(memory.DefaultAllocator)
	for range benchRows {
		label.Append(int32(r.IntN(2)))
	}
	add("label", false, label)
	for i := range 13 {
		b := array.NewFloat32Builder(memory.DefaultAllocator)
		for range benchRows {
			if r.IntN(10) == 0 {
				b.AppendNull()
			} else {
				b.Append(float32(r.IntN(1 << (i + 2))))
			}
		}
		add(fmt.Sprintf("int_%d", i), true, b)
	}
	for i := range 26 {
		b := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
		v := b.ValueBuilder().(*array.Int64Builder)
		for range benchRows {
			b.Append(true)
			for range 1 + r.IntN(20) {
				v.Append(int64(ids.Uint64()*0x9E3779B97F4A7C15) >> 1)
			}
		}
		add(fmt.Sprintf("cat_%d", i), true, b)
	}
	return array.NewTableFromRecords(arrow.NewSchema(fields, nil), []arrow.Record{array.NewRecord(arrow.NewSchema(fields, nil), arrays, benchRows)})
})

// BenchmarkDecode compares rows per second with those of arrow's reader, over the same file in memory.
func BenchmarkDecode(b *testing.B) {
	for _, codec := range []compress.Compression{compress.Codecs.Zstd, compress.Codecs.Uncompressed} {
		for _, dictionary := range []bool{true, false} {
			data := writeTable(b, clicks(), benchRows, parquet.WithCompression(codec),
				parquet.WithDictionaryDefault(dictionary), parquet.WithDataPageVersion(parquet.DataPageV2))
			name := fmt.Sprintf("%s/dictionary=%v/", codec, dictionary)
			b.Run(name+"columns", func(b *testing.B) { benchColumns(b, data, benchRows) })
			b.Run(name+"pqarrow", func(b *testing.B) { benchArrow(b, data) })
		}
	}
}

func rowsPerSecond(b *testing.B, rows int) {
	b.ReportMetric(float64(b.N)*float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func benchColumns(b *testing.B, data []byte, rows int) {
	b.ReportAllocs()
	f, err := readFooter(data)
	if err != nil {
		b.Fatal(err)
	}
	d := NewDecoder(sourcesOf(f), testMemory)
	for b.Loop() {
		chunks, err := chunksOf(d, f, 0, data)
		if err == nil {
			err = d.Reset("bench", f, 0, chunks)
		}
		for left := rows; left > 0 && err == nil; left -= 4096 {
			_, err = d.Next(4096)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	rowsPerSecond(b, rows)
}

func benchArrow(b *testing.B, data []byte) {
	b.ReportAllocs()
	for b.Loop() {
		r, err := file.NewParquetReader(bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: 4096}, memory.DefaultAllocator)
		if err != nil {
			b.Fatal(err)
		}
		records, err := fr.GetRecordReader(b.Context(), nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		for records.Next() {
		}
		if err := records.Err(); err != nil && err.Error() != "EOF" {
			b.Fatal(err)
		}
		records.Release()
	}
	rowsPerSecond(b, benchRows)
}
