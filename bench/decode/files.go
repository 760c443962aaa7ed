package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	pq "github.com/parquet-go/parquet-go"
	pqzstd "github.com/parquet-go/parquet-go/compress/zstd"
)

const groupRows = 65536

// shown is the file whose pages worker/columns shows where they lie.
const shown = "none, plain"

// input is a file to decode.
type input struct {
	name, path string
	columns    []string // nil: all
}

// spec says how a file is written.
type fileSpec struct {
	name    string
	fill    func(rows int) arrow.Record // of one row group
	options []parquet.WriterProperty
	columns []string
}

func fileSpecs() []fileSpec {
	zstd, snappy, none := compress.Codecs.Zstd, compress.Codecs.Snappy, compress.Codecs.Uncompressed
	with := func(c compress.Compression, dictionary bool, more ...parquet.WriterProperty) []parquet.WriterProperty {
		// Version 2: arrow's writer takes minutes for lists in pages of version 1.
		return append(more, parquet.WithCompression(c), parquet.WithDictionaryDefault(dictionary),
			parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithMaxRowGroupLength(groupRows))
	}
	var every4th []string
	for i := 0; i < 500; i += 4 {
		every4th = append(every4th, wideName(i))
	}
	delta := parquet.Encodings.DeltaBinaryPacked
	return []fileSpec{
		{name: "zstd, dictionary", fill: clicks, options: with(zstd, true)},
		{name: "zstd, plain", fill: clicks, options: with(zstd, false)},
		{name: "snappy, dictionary", fill: clicks, options: with(snappy, true)},
		{name: "snappy, plain", fill: clicks, options: with(snappy, false)},
		{name: "none, dictionary", fill: clicks, options: with(none, true)},
		{name: shown, fill: clicks, options: with(none, false)},
		{name: "500 columns, 125 read", fill: wide, options: with(zstd, true), columns: every4th},
		{name: "maps", fill: scores, options: with(zstd, true)},
		{name: "strings, dictionary", fill: texts, options: with(zstd, true)},
		{name: "strings, plain", fill: texts, options: with(snappy, false)},
		{name: "delta", fill: deltas, options: with(zstd, false, parquet.WithEncodingFor("when", delta), parquet.WithEncodingFor("count", delta),
			parquet.WithEncodingFor("ids.list.element", delta), parquet.WithEncodingFor("text", parquet.Encodings.DeltaLengthByteArray))},
	}
}

// writeFiles writes the files that are not in dir yet.
func writeFiles(ctx context.Context, dir string, rows int, py *python, progress io.Writer) ([]input, error) {
	var inputs []input
	add := func(name string, columns []string, write func(path string) error) error {
		in := input{name: name, path: filepath.Join(dir, fmt.Sprintf("%d_%d.parquet", rows, len(inputs))), columns: columns}
		inputs = append(inputs, in)
		if _, err := os.Stat(in.path); err == nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(progress, "writing %s\n", name)
		if err := write(in.path + ".part"); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		return os.Rename(in.path+".part", in.path)
	}
	for _, s := range fileSpecs() {
		if err := add(s.name, s.columns, func(path string) error { return s.write(path, rows) }); err != nil {
			return nil, err
		}
	}
	if err := add("byte-stream-split", nil, func(path string) error { return writeSplit(path, rows) }); err != nil {
		return nil, err
	}
	if py == nil {
		return inputs, nil
	}
	from := inputs[0].path
	err := add("as pyarrow writes it", nil, func(path string) error {
		_, err := py.ask(ctx, request{Reader: "write", File: from, To: path})
		return err
	})
	return inputs, err
}

func (s *fileSpec) write(path string, rows int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	first := s.fill(min(rows, groupRows))
	w, err := pqarrow.NewFileWriter(first.Schema(), f, parquet.NewWriterProperties(s.options...), pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	for left := rows; left > 0; left -= groupRows {
		record := first // row groups are alike
		if left < groupRows {
			record = first.NewSlice(0, int64(left))
		}
		if err := w.Write(record); err != nil {
			return err
		}
	}
	return w.Close() // the file too
}

// table is filled column by column.
type table struct {
	*rand.Rand
	zipf   *rand.Zipf
	rows   int
	fields []arrow.Field
	arrays []arrow.Array
}

func newTable(rows int) *table {
	r := rand.New(rand.NewPCG(3, 4))
	return &table{Rand: r, zipf: rand.NewZipf(r, 1.2, 8, 1<<20), rows: rows}
}

func (t *table) id() int64 { return int64(t.zipf.Uint64()*0x9E3779B97F4A7C15) >> 1 }

// add makes a column; value appends one, and one row of nulls is null.
func add[B array.Builder](t *table, name string, kind arrow.DataType, nulls int, value func(B)) {
	b := array.NewBuilder(memory.DefaultAllocator, kind).(B)
	for range t.rows {
		if nulls > 0 && t.IntN(nulls) == 0 {
			b.AppendNull()
		} else {
			value(b)
		}
	}
	t.fields = append(t.fields, arrow.Field{Name: name, Type: kind, Nullable: nulls > 0})
	t.arrays = append(t.arrays, b.NewArray())
}

func (t *table) record() arrow.Record {
	return array.NewRecord(arrow.NewSchema(t.fields, nil), t.arrays, int64(t.rows))
}

func (t *table) dense(name string, distinct int) {
	add(t, name, arrow.PrimitiveTypes.Float32, 10, func(b *array.Float32Builder) { b.Append(float32(t.IntN(distinct))) })
}

func (t *table) ids(name string) {
	add(t, name, arrow.ListOf(arrow.PrimitiveTypes.Int64), 50, func(b *array.ListBuilder) {
		b.Append(true)
		v := b.ValueBuilder().(*array.Int64Builder)
		for range 1 + t.IntN(20) {
			v.Append(t.id())
		}
	})
}

// clicks has Criteo's shape: a label, 13 numbers with nulls, 26 lists of ids, few of which are frequent.
func clicks(rows int) arrow.Record {
	t := newTable(rows)
	add(t, "label", arrow.PrimitiveTypes.Int32, 0, func(b *array.Int32Builder) { b.Append(int32(t.IntN(2))) })
	for i := range 13 {
		t.dense(fmt.Sprintf("int_%d", i), 1<<(i+2))
	}
	for i := range 26 {
		t.ids(fmt.Sprintf("cat_%d", i))
	}
	return t.record()
}

func wideName(i int) string {
	if i%16 == 0 {
		return fmt.Sprintf("ids_%d", i)
	}
	return fmt.Sprintf("x_%d", i)
}

func wide(rows int) arrow.Record {
	t := newTable(rows)
	for i := range 500 {
		if name := wideName(i); i%16 == 0 {
			t.ids(name)
		} else {
			t.dense(name, 4<<(i%13))
		}
	}
	return t.record()
}

func scores(rows int) arrow.Record {
	t := newTable(rows)
	for i := range 4 {
		add(t, fmt.Sprintf("scores_%d", i), arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32), 50, func(b *array.MapBuilder) {
			b.Append(true)
			first := t.id()
			for k := range 1 + t.IntN(12) {
				b.KeyBuilder().(*array.Int64Builder).Append(first + int64(k)) // keys of a map differ
				b.ItemBuilder().(*array.Float32Builder).Append(t.Float32())
			}
		})
		add(t, fmt.Sprintf("named_%d", i), arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64), 50, func(b *array.MapBuilder) {
			b.Append(true)
			first := t.IntN(100)
			for k := range t.IntN(6) {
				b.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprintf("feature_%d", first+k))
				b.ItemBuilder().(*array.Float64Builder).Append(float64(t.IntN(1000)) / 8)
			}
		})
	}
	return t.record()
}

func texts(rows int) arrow.Record {
	t := newTable(rows)
	for i := range 8 {
		add(t, fmt.Sprintf("text_%d", i), arrow.BinaryTypes.String, 20, func(b *array.StringBuilder) {
			b.Append(fmt.Sprintf("%08x", t.zipf.Uint64()*0x9E3779B1)[:2+t.IntN(7)])
		})
		add(t, fmt.Sprintf("tags_%d", i), arrow.ListOf(arrow.BinaryTypes.String), 20, func(b *array.ListBuilder) {
			b.Append(true)
			for range t.IntN(8) {
				b.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprintf("tag-%d", t.zipf.Uint64()))
			}
		})
	}
	return t.record()
}

func deltas(rows int) arrow.Record {
	t := newTable(rows)
	when := int64(1_700_000_000_000)
	add(t, "when", arrow.PrimitiveTypes.Int64, 0, func(b *array.Int64Builder) { when += t.Int64N(5000); b.Append(when) })
	add(t, "count", arrow.PrimitiveTypes.Int32, 20, func(b *array.Int32Builder) { b.Append(int32(t.IntN(1000))) })
	add(t, "text", arrow.BinaryTypes.String, 20, func(b *array.StringBuilder) { b.Append(fmt.Sprint("query ", t.zipf.Uint64())) })
	add(t, "ids", arrow.ListOf(arrow.PrimitiveTypes.Int64), 50, func(b *array.ListBuilder) {
		b.Append(true)
		for range 1 + t.IntN(20) {
			b.ValueBuilder().(*array.Int64Builder).Append(int64(t.zipf.Uint64()))
		}
	})
	return t.record()
}

// writeSplit writes numbers as BYTE_STREAM_SPLIT, which arrow for Go cannot.
func writeSplit(path string, rows int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	group := pq.Group{}
	for i := range 16 {
		leaf := pq.Leaf(pq.FloatType)
		if i%4 == 3 {
			leaf = pq.Leaf(pq.DoubleType)
		}
		group[fmt.Sprintf("x_%02d", i)] = pq.Optional(pq.Encoded(leaf, &pq.ByteStreamSplit))
	}
	w := pq.NewWriter(f, pq.NewSchema("split", group), pq.Compression(&pqzstd.Codec{}), pq.MaxRowsPerRowGroup(groupRows))
	r := rand.New(rand.NewPCG(5, 6))
	row := make(pq.Row, 16)
	for range rows {
		for i := range row {
			switch x := r.NormFloat64(); {
			case r.IntN(10) == 0:
				row[i] = pq.NullValue().Level(0, 0, i)
			case i%4 == 3:
				row[i] = pq.DoubleValue(x).Level(0, 1, i)
			default:
				row[i] = pq.FloatValue(float32(x)).Level(0, 1, i)
			}
		}
		if _, err := w.WriteRows([]pq.Row{row}); err != nil {
			return err
		}
	}
	return w.Close()
}
