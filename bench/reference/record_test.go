package reference

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// wireSchema is that of batches with one output of each layout.
func wireSchema() *arrow.Schema {
	meta := func(kv ...string) arrow.Metadata {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return arrow.MetadataFrom(m)
	}
	weighted := arrow.StructOf(
		arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32})
	return arrow.NewSchema([]arrow.Field{
		{
			Name: "dense", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32),
			Metadata: meta("penstock.layout", "dense", "penstock.names", `["a","b"]`),
		},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Metadata: meta("penstock.layout", "sparse")},
		{Name: "scored", Type: arrow.ListOf(weighted), Metadata: meta("penstock.layout", "sparse")},
		{Name: "y", Type: arrow.PrimitiveTypes.Int32, Metadata: meta("penstock.layout", "label")},
		{Name: "url", Type: arrow.BinaryTypes.Binary, Metadata: meta("penstock.layout", "bytes")},
		{Name: "_file", Type: arrow.PrimitiveTypes.Int32},
		{Name: "_row", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
}

// wireRow is a row of such batches.
type wireRow struct {
	dense   [2]float32
	ids     []int64
	scored  []int64
	weights []float32
	y       int32
	url     string
}

func wireBatch(rows []wireRow) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, wireSchema())
	for i, r := range rows {
		dense := b.Field(0).(*array.FixedSizeListBuilder)
		dense.Append(true)
		dense.ValueBuilder().(*array.Float32Builder).AppendValues(r.dense[:], nil)
		ids := b.Field(1).(*array.ListBuilder)
		ids.Append(true)
		ids.ValueBuilder().(*array.Int64Builder).AppendValues(r.ids, nil)
		scored := b.Field(2).(*array.ListBuilder)
		scored.Append(true)
		pair := scored.ValueBuilder().(*array.StructBuilder)
		for j := range r.scored {
			pair.Append(true)
			pair.FieldBuilder(0).(*array.Int64Builder).Append(r.scored[j])
			pair.FieldBuilder(1).(*array.Float32Builder).Append(r.weights[j])
		}
		b.Field(3).(*array.Int32Builder).Append(r.y)
		b.Field(4).(*array.BinaryBuilder).AppendString(r.url)
		b.Field(5).(*array.Int32Builder).Append(3)
		b.Field(6).(*array.Int64Builder).Append(int64(i))
	}
	return b.NewRecord()
}

func hashes(t testing.TB, rec arrow.Record) []uint64 {
	t.Helper()
	r, err := NewRecords(rec.Schema())
	if err != nil {
		t.Fatal(err)
	}
	var out []uint64
	err = r.Each(rec, func(file int32, row int64, hash uint64) error {
		out = append(out, hash)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRecordsAgreeWithHasher(t *testing.T) {
	row := wireRow{[2]float32{1.5, -2}, []int64{7, 8}, []int64{9}, []float32{0.25}, 1, "penstock"}
	h := NewHasher([]Field{
		{Name: "y", Layout: pb.Layout_LABEL, Kind: pb.Kind_INT32},
		{Name: "scored", Layout: pb.Layout_SPARSE, Kind: pb.Kind_INT64, Weighted: true},
		{Name: "url", Layout: pb.Layout_BYTES, Kind: pb.Kind_BINARY},
		{Name: "ids", Layout: pb.Layout_SPARSE, Kind: pb.Kind_INT64},
		{Name: "dense", Layout: pb.Layout_DENSE, Kind: pb.Kind_FLOAT32, Columns: []string{"a", "b"}},
	})
	h.Reset()
	h.Float32(1.5)
	h.Float32(-2)
	h.Len(2)
	h.Int(7)
	h.Int(8)
	h.Len(1)
	h.Int(9)
	h.Float32(0.25)
	h.Bytes([]byte("penstock"))
	h.Int(1)
	rec := wireBatch([]wireRow{{}, row})
	if got := hashes(t, rec); got[1] != h.Sum() {
		t.Errorf("batch %016x, hasher %016x", got[1], h.Sum())
	}
	if got := hashes(t, rec.NewSlice(1, 2)); got[0] != h.Sum() {
		t.Errorf("slice of a batch %016x, hasher %016x", got[0], h.Sum())
	}
}

// Any change of a row changes its hash.
func TestHashTellsRowsApart(t *testing.T) {
	nan := math.Float32frombits(0x7fc12345)
	rows := []wireRow{
		{},
		{dense: [2]float32{1, 0}},
		{dense: [2]float32{0, 1}},
		{dense: [2]float32{float32(math.Copysign(0, -1)), 0}},
		{dense: [2]float32{nan, 0}},
		{ids: []int64{0}},
		{ids: []int64{0, 0}},
		{ids: []int64{1, 2}},
		{ids: []int64{2, 1}},
		{ids: []int64{1}, scored: []int64{2}, weights: []float32{1}},
		{scored: []int64{1}, weights: []float32{0}},
		{scored: []int64{1}, weights: []float32{2}},
		{scored: []int64{2}, weights: []float32{1}},
		{y: 1},
		{y: -1},
		{url: "a"},
		{url: "a\x00"},
		{url: "abcdefgh"},
		{url: "abcdefghi"},
	}
	seen := map[uint64]int{}
	for i, h := range hashes(t, wireBatch(rows)) {
		if j, ok := seen[h]; ok {
			t.Errorf("rows %d and %d have the same hash", j, i)
		}
		seen[h] = i
	}
	other := hashes(t, wireBatch([]wireRow{{dense: [2]float32{float32(math.NaN()), 0}}}))[0]
	if seen[other] != 4 {
		t.Error("NaNs are not all alike")
	}
}

func TestHashIsSensitiveToEveryBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.Int64(), 1, 40).Draw(t, "words")
		sum := func() uint64 {
			h := NewHasher(nil)
			h.Reset()
			for _, w := range words {
				h.Int(w)
			}
			return h.Sum()
		}
		before := sum()
		i := rapid.IntRange(0, len(words)-1).Draw(t, "word")
		words[i] ^= 1 << rapid.IntRange(0, 63).Draw(t, "bit")
		if sum() == before {
			t.Fatal("one bit changed and the hash did not")
		}
	})
}

func TestNewRecordsErrors(t *testing.T) {
	good := wireSchema().Fields()
	shaped := func(dtype, shape, side string) []arrow.Field {
		keys := []string{"penstock.layout", "penstock.dtype", "penstock.shape", "penstock.value", "penstock.side"}
		return append([]arrow.Field{{
			Name: "x", Metadata: arrow.NewMetadata(keys, []string{"padded", dtype, shape, "0", side}),
			Type: arrow.StructOf(
				arrow.Field{Name: "values", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Uint16)},
				arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32}),
		}}, good[5:]...)
	}
	if _, err := NewRecords(arrow.NewSchema(shaped("bfloat16", "2", "left"), nil)); err != nil {
		t.Error(err)
	}
	provenance := good[5:]
	for name, fields := range map[string][]arrow.Field{
		"no provenance": good[:5],
		"no layout":     append([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int32}}, provenance...),
		"dense of int": append([]arrow.Field{{
			Name: "dense", Type: arrow.PrimitiveTypes.Int32,
			Metadata: good[0].Metadata,
		}}, provenance...),
		"sparse int32": append([]arrow.Field{{
			Name: "x", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32),
			Metadata: good[1].Metadata,
		}}, provenance...),
		"padded of another dtype": shaped("int16", "2", "left"),
		"padded of no dtype":      shaped("", "2", "left"),
		"padded of another shape": shaped("uint16", "3", "left"),
		"padded without shape":    shaped("uint16", "", "left"),
		"padded on no side":       shaped("uint16", "2", ""),
		"label of texts": append([]arrow.Field{{Name: "x", Type: arrow.BinaryTypes.String, Metadata: good[3].Metadata}},
			provenance...),
	} {
		if _, err := NewRecords(arrow.NewSchema(fields, nil)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	rows := make([]wireRow, 4096)
	for i := range rows {
		rows[i].ids = []int64{1, 2, 3}
	}
	rec := wireBatch(rows)
	r, err := NewRecords(rec.Schema())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Each(rec, func(int32, int64, uint64) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*4096/b.Elapsed().Seconds(), "rows/s")
}
