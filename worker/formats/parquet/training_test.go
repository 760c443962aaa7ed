package parquet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	pq "github.com/parquet-go/parquet-go"
	pqzstd "github.com/parquet-go/parquet-go/compress/zstd"
)

// trainingRows is how many rows files have: one row group.
const trainingRows = 65536

// training is a file as training data is made of.
type training struct {
	name    string
	columns []string // that are read; nil: all
	write   func(b *testing.B) []byte
}

func trainingFiles() []training {
	zstd, snappy, none := compress.Codecs.Zstd, compress.Codecs.Snappy, compress.Codecs.Uncompressed
	with := func(
		fill func(rows int) arrow.Record, c compress.Compression, dictionary bool, more ...parquet.WriterProperty,
	) func(*testing.B) []byte {
		// Version 2: arrow's writer takes minutes for lists in pages of version 1.
		more = append(more, parquet.WithCompression(c), parquet.WithDictionaryDefault(dictionary),
			parquet.WithDataPageVersion(parquet.DataPageV2))
		return func(b *testing.B) []byte {
			record := fill(trainingRows)
			return writeTable(b, array.NewTableFromRecords(record.Schema(), []arrow.Record{record}), trainingRows,
				more...)
		}
	}
	var every4th []string
	for i := 0; i < 500; i += 4 {
		every4th = append(every4th, wideName(i))
	}
	delta := parquet.Encodings.DeltaBinaryPacked
	return []training{
		{name: "zstd, dictionary", write: with(clicks, zstd, true)},
		{name: "zstd, plain", write: with(clicks, zstd, false)},
		{name: "snappy, dictionary", write: with(clicks, snappy, true)},
		{name: "snappy, plain", write: with(clicks, snappy, false)},
		{name: "none, dictionary", write: with(clicks, none, true)},
		{name: "none, plain", write: with(clicks, none, false)}, // columns shows the pages where they lie
		{name: "500 columns, 125 read", write: with(wide, zstd, true), columns: every4th},
		{name: "maps", write: with(scores, zstd, true)},
		{name: "strings, dictionary", write: with(texts, zstd, true)},
		{name: "strings, plain", write: with(texts, snappy, false)},
		{name: "delta", write: with(deltas, zstd, false,
			parquet.WithEncodingFor("when", delta), parquet.WithEncodingFor("count", delta),
			parquet.WithEncodingFor("ids.list.element", delta),
			parquet.WithEncodingFor("text", parquet.Encodings.DeltaLengthByteArray))},
		{name: "byte-stream-split", write: writeSplit},
		{
			name:  "as pyarrow writes it",
			write: func(b *testing.B) []byte { return rewrite(b, with(clicks, zstd, true)(b)) },
		},
	}
}

// rewrite is what pyarrow writes of a file's rows.
func rewrite(b *testing.B, data []byte) []byte {
	from, to := filepath.Join(b.TempDir(), "from"), filepath.Join(b.TempDir(), "to")
	if err := os.WriteFile(from, data, 0o600); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command("python3", "testdata/readers.py", "--write", from, to).CombinedOutput(); err != nil {
		b.Skipf("needs python3 with pyarrow and duckdb: %v\n%s", err, out)
	}
	data, err := os.ReadFile(to)
	if err != nil {
		b.Fatal(err)
	}
	return data
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
	add(t, name, arrow.PrimitiveTypes.Float32, 10,
		func(b *array.Float32Builder) { b.Append(float32(t.IntN(distinct))) })
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
		ids := arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32)
		add(t, fmt.Sprintf("scores_%d", i), ids, 50, func(b *array.MapBuilder) {
			b.Append(true)
			first := t.id()
			for k := range 1 + t.IntN(12) {
				b.KeyBuilder().(*array.Int64Builder).Append(first + int64(k)) // keys of a map differ
				b.ItemBuilder().(*array.Float32Builder).Append(t.Float32())
			}
		})
		names := arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64)
		add(t, fmt.Sprintf("named_%d", i), names, 50, func(b *array.MapBuilder) {
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
	add(t, "when", arrow.PrimitiveTypes.Int64, 0,
		func(b *array.Int64Builder) { when += t.Int64N(5000); b.Append(when) })
	add(t, "count", arrow.PrimitiveTypes.Int32, 20, func(b *array.Int32Builder) { b.Append(int32(t.IntN(1000))) })
	add(t, "text", arrow.BinaryTypes.String, 20, func(b *array.StringBuilder) {
		b.Append(fmt.Sprint("query ", t.zipf.Uint64()))
	})
	add(t, "ids", arrow.ListOf(arrow.PrimitiveTypes.Int64), 50, func(b *array.ListBuilder) {
		b.Append(true)
		for range 1 + t.IntN(20) {
			b.ValueBuilder().(*array.Int64Builder).Append(int64(t.zipf.Uint64()))
		}
	})
	return t.record()
}

// writeSplit writes numbers as BYTE_STREAM_SPLIT, which arrow for Go cannot.
func writeSplit(b *testing.B) []byte {
	group := pq.Group{}
	for i := range 16 {
		leaf := pq.Leaf(pq.FloatType)
		if i%4 == 3 {
			leaf = pq.Leaf(pq.DoubleType)
		}
		group[fmt.Sprintf("x_%02d", i)] = pq.Optional(pq.Encoded(leaf, &pq.ByteStreamSplit))
	}
	var out bytes.Buffer
	w := pq.NewWriter(&out, pq.NewSchema("split", group), pq.Compression(&pqzstd.Codec{}))
	r := rand.New(rand.NewPCG(5, 6))
	row := make(pq.Row, 16)
	for range trainingRows {
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
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}
