package reference

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/keys"
)

// memoryStore is a storage.Storage of files in memory.
type memoryStore map[string][]byte

func (m memoryStore) List(context.Context, string, []string) ([]*pb.File, error) {
	var files []*pb.File
	for uri, b := range m {
		files = append(files, &pb.File{Uri: uri, Size: int64(len(b))})
	}
	slices.SortFunc(files, func(a, b *pb.File) int { return strings.Compare(a.Uri, b.Uri) })
	for i, f := range files {
		f.Index = uint32(i)
	}
	return files, nil
}

func (memoryStore) Keys(string) *keys.Ring { return nil }

func (m memoryStore) ReadAt(_ context.Context, _ string, f *pb.File, buf []byte, offset int64) error {
	if n := copy(buf, m[f.Uri][offset:]); n < len(buf) {
		return fmt.Errorf("%d bytes past the end", len(buf)-n)
	}
	return nil
}

// parquetOf writes a table, given as JSON rows, with row groups of 2 rows.
func parquetOf(t testing.TB, json string, fields ...arrow.Field) []byte {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	props := parquet.NewWriterProperties(parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithMaxRowGroupLength(2))
	w, err := pqarrow.NewFileWriter(schema, &out, props, pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func feature(layout pb.Layout, names ...string) *pb.Feature {
	return &pb.Feature{Name: names, Layout: layout}
}

func expected(t testing.TB, s *pb.Spec, store memoryStore) *Expected {
	t.Helper()
	in, err := New(t.Context(), s, store)
	if err != nil {
		t.Fatal(err)
	}
	e, err := in.Expected(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// rowHash hashes a row by hand.
func rowHash(fields []Field, add func(h *Hasher)) uint64 {
	h := NewHasher(fields)
	h.Reset()
	add(h)
	return h.Sum()
}

func TestEveryLayout(t *testing.T) {
	store := memoryStore{"mem://a": parquetOf(t, `[
		{"y": 1, "d": 0.5, "i": 3, "b": true, "ids": [7, null, 9], "w": [0.5, 1, null], "one": 4, "s": "abc", "px": "wxyz"},
		{"y": 0, "d": null, "i": null, "b": null, "ids": null, "w": null, "one": null, "s": null, "px": null}
	]`,
		field("y", arrow.PrimitiveTypes.Int32), field("d", arrow.PrimitiveTypes.Float64), field("i",
			arrow.PrimitiveTypes.Int64),
		field("b", arrow.FixedWidthTypes.Boolean), field("ids", arrow.ListOf(arrow.PrimitiveTypes.Int32)),
		field("w", arrow.ListOf(arrow.PrimitiveTypes.Float32)), field("one", arrow.PrimitiveTypes.Int64),
		field("s", arrow.BinaryTypes.String), field("px", arrow.BinaryTypes.String))}
	weighted := feature(pb.Layout_SPARSE, "ids")
	weighted.Weights = "w"
	image := feature(pb.Layout_IMAGE, "px")
	image.Shape = []int32{2, 2, 1}
	e := expected(t, &pb.Spec{Features: []*pb.Feature{
		feature(pb.Layout_LABEL, "y"), feature(pb.Layout_DENSE, "d", "i"), weighted, feature(pb.Layout_DENSE, "b"),
		feature(pb.Layout_SPARSE, "one", "w"), feature(pb.Layout_BYTES, "s"), image,
	}}, store)
	fields := []Field{
		{Name: "dense", Layout: pb.Layout_DENSE, Kind: pb.Kind_FLOAT32, Columns: []string{"d", "i", "b"}},
		{Name: "ids", Layout: pb.Layout_SPARSE, Kind: pb.Kind_INT64, Weighted: true},
		{Name: "one", Layout: pb.Layout_SPARSE, Kind: pb.Kind_INT64},
		{Name: "px", Layout: pb.Layout_IMAGE, Kind: pb.Kind_BINARY, Shape: []int32{2, 2, 1}},
		{Name: "s", Layout: pb.Layout_BYTES, Kind: pb.Kind_BINARY},
		{Name: "w", Layout: pb.Layout_SPARSE, Kind: pb.Kind_FLOAT32},
		{Name: "y", Layout: pb.Layout_LABEL, Kind: pb.Kind_INT32},
	}
	nan := float32(math.NaN())
	want := []Record{
		{0, 0, rowHash(fields, func(h *Hasher) {
			h.Float32(0.5)
			h.Float32(3)
			h.Float32(1)
			h.Len(2) // the null id goes with its weight; a null weight is NaN
			h.Int(7)
			h.Float32(0.5)
			h.Int(9)
			h.Float32(nan)
			h.Len(1)
			h.Int(4)
			h.Bytes([]byte("wxyz"))
			h.Bytes([]byte("abc"))
			h.Len(2)
			h.Float32(0.5)
			h.Float32(1)
			h.Int(1)
		})},
		{0, 1, rowHash(fields, func(h *Hasher) {
			h.Float32(nan)
			h.Float32(nan)
			h.Float32(nan)
			h.Len(0)
			h.Len(0)
			h.Bytes(make([]byte, 4))
			h.Bytes(nil)
			h.Len(0)
			h.Int(0)
		})},
	}
	if got := slices.Collect(e.All()); !slices.Equal(got, want) {
		t.Errorf("got %x; want %x", got, want)
	}
}

func TestTypesOfColumns(t *testing.T) {
	for _, tt := range []struct {
		typ    arrow.DataType
		json   string
		kind   pb.Kind
		ints   []int64
		floats []float64
	}{
		{arrow.PrimitiveTypes.Int8, `[{"x":-1},{"x":2}]`, pb.Kind_INT32, []int64{-1, 2}, nil},
		{arrow.PrimitiveTypes.Uint16, `[{"x":65535}]`, pb.Kind_INT32, []int64{65535}, nil},
		{arrow.PrimitiveTypes.Uint32, `[{"x":4294967295}]`, pb.Kind_INT64, []int64{4294967295}, nil},
		{arrow.PrimitiveTypes.Uint64, `[{"x":9223372036854775808}]`, pb.Kind_INT64, []int64{math.MinInt64}, nil},
		{arrow.PrimitiveTypes.Date32, `[{"x":"1970-01-03"}]`, pb.Kind_INT32, []int64{2}, nil},
		{
			&arrow.TimestampType{Unit: arrow.Microsecond}, `[{"x":"1970-01-01 00:00:01"}]`, pb.Kind_INT64,
			[]int64{1_000_000},
			nil,
		},
		{&arrow.Decimal128Type{Precision: 10, Scale: 2}, `[{"x":"-12.34"}]`, pb.Kind_FLOAT64, nil, []float64{-12.34}},
		{arrow.PrimitiveTypes.Float64, `[{"x":0.1},{"x":null}]`, pb.Kind_FLOAT64, nil, []float64{0.1, math.NaN()}},
		{arrow.FixedWidthTypes.Boolean, `[{"x":true}]`, pb.Kind_BOOL, []int64{1}, nil},
	} {
		store := memoryStore{"mem://a": parquetOf(t, tt.json, field("x", tt.typ))}
		e := expected(t, &pb.Spec{Features: []*pb.Feature{feature(pb.Layout_LABEL, "x")}}, store)
		for i, r := range slices.Collect(e.All()) {
			want := rowHash([]Field{{Name: "x", Layout: pb.Layout_LABEL, Kind: tt.kind}}, func(h *Hasher) {
				if tt.ints != nil {
					h.Int(tt.ints[i])
				} else {
					h.Float64(tt.floats[i])
				}
			})
			if r.Hash != want {
				t.Errorf("%v: row %d differs", tt.typ, i)
			}
		}
	}
}

func TestStructsAndMaps(t *testing.T) {
	store := memoryStore{"mem://a": parquetOf(t, `[
		{"u": {"age": 30, "n": {"z": 1}}, "m": [{"key": 5, "value": 50}, {"key": -7, "value": 70}], "s": [{"key": "a.b", "value": 1}]},
		{"u": null, "m": [], "s": []},
		{"u": {"age": null, "n": {"z": 3}}, "m": null, "s": [{"key": "c", "value": 2}]}
	]`,
		field("u", arrow.StructOf(field("age", arrow.PrimitiveTypes.Int32),
			field("n", arrow.StructOf(field("z", arrow.PrimitiveTypes.Int64))))),
		field("m", arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64)),
		field("s", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)),
	)}
	e := expected(t, &pb.Spec{Features: []*pb.Feature{
		feature(pb.Layout_DENSE, "u.age", "u.n.z", "m.5", "m.-7", "s.a.b"), feature(pb.Layout_SPARSE, "m.key",
			"m.value"),
	}}, store)
	fields := []Field{
		{
			Name: "dense", Layout: pb.Layout_DENSE, Kind: pb.Kind_FLOAT32,
			Columns: []string{"u.age", "u.n.z", "m.5", "m.-7", "s.a.b"},
		},
		{Name: "m.key", Layout: pb.Layout_SPARSE, Kind: pb.Kind_INT64},
		{Name: "m.value", Layout: pb.Layout_SPARSE, Kind: pb.Kind_INT64},
	}
	nan := float32(math.NaN())
	rows := []struct {
		dense        []float32
		keys, values []int64
	}{
		{[]float32{30, 1, 50, 70, 1}, []int64{5, -7}, []int64{50, 70}},
		{[]float32{nan, nan, nan, nan, nan}, nil, nil},
		{[]float32{nan, 3, nan, nan, nan}, nil, nil},
	}
	for i, got := range slices.Collect(e.All()) {
		want := rowHash(fields, func(h *Hasher) {
			for _, x := range rows[i].dense {
				h.Float32(x)
			}
			for _, list := range [][]int64{rows[i].keys, rows[i].values} {
				h.Len(len(list))
				for _, x := range list {
					h.Int(x)
				}
			}
		})
		if got.Hash != want {
			t.Errorf("row %d differs", i)
		}
	}
}

func TestFilesThatDiffer(t *testing.T) {
	x, y := field("x", arrow.PrimitiveTypes.Int64), field("y", arrow.PrimitiveTypes.Int64)
	store := memoryStore{
		"mem://day=1/b": parquetOf(t, `[{"x": 1}, {"x": 2}, {"x": 3}]`, x),
		"mem://day=1/a": parquetOf(t, `[{"y": 10}]`, y),
		"mem://day=2/c": parquetOf(t, `[{"x": 5, "y": 50}]`, x, y),
		"mem://day=1/0": parquetOf(t, `[]`, x),
	}
	withDefault := feature(pb.Layout_DENSE, "x")
	withDefault.Default = value(8)
	e := expected(t, &pb.Spec{
		Dataset:  &pb.Dataset{Partitions: "day == 1"},
		Filter:   "x != 2",
		Features: []*pb.Feature{withDefault, feature(pb.Layout_DENSE, "y")},
	}, store)
	fields := []Field{{Name: "dense", Layout: pb.Layout_DENSE, Kind: pb.Kind_FLOAT32, Columns: []string{"x", "y"}}}
	row := func(file int32, row int64, x, y float32) Record {
		return Record{file, row, rowHash(fields, func(h *Hasher) {
			h.Float32(x)
			h.Float32(y)
		})}
	}
	nan := float32(math.NaN())
	want := []Record{row(1, 0, 8, 10), row(2, 0, 1, nan), row(2, 2, 3, nan)}
	if got := slices.Collect(e.All()); !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}
}

func TestTransformsAndNames(t *testing.T) {
	store := memoryStore{"mem://a": parquetOf(t, `[{"i_2": 1, "i_10": 2}]`, field("i_10", arrow.PrimitiveTypes.Int64),
		field("i_2", arrow.PrimitiveTypes.Int64))}
	in, err := New(t.Context(), &pb.Spec{
		Features: []*pb.Feature{feature(pb.Layout_DENSE, "i_*"), feature(pb.Layout_DENSE, "sum*")},
		Transforms: []*pb.Transform{
			{Op: "clamp", In: []string{"i_*"}, Out: "{}_c", Params: params("max", 1)},
			{Op: "normalize", In: []string{"i_2"}, Params: params("mean", 0, "std", 2)},
			{Op: "clamp", In: []string{"i_2"}, Out: "sum", Params: params("min", 0)},
			{Op: "sample", Params: params("rate", 1)},
		},
	}, store)
	if err != nil {
		t.Fatal(err)
	}
	fields := in.Fields()
	want := []string{"i_2", "i_2_c", "i_10", "i_10_c", "sum"}
	if got := fields[0].Columns; len(fields) != 1 || !slices.Equal(got, want) {
		t.Fatalf("columns %v; want %v", got, want)
	}
	e, err := in.Expected(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	hash := rowHash(fields, func(h *Hasher) {
		for _, x := range []float32{0.5, 1, 2, 1, 0.5} {
			h.Float32(x)
		}
	})
	if got := slices.Collect(e.All()); len(got) != 1 || got[0].Hash != hash {
		t.Errorf("got %v; want %x", got, hash)
	}
}

func TestInterpreterErrors(t *testing.T) {
	x := field("x", arrow.PrimitiveTypes.Int64)
	store := memoryStore{"mem://a": parquetOf(t, `[{"x": 1}, {"x": null}]`, x,
		field("l", arrow.ListOf(arrow.PrimitiveTypes.Int64)))}
	other := memoryStore{
		"mem://a": store["mem://a"],
		"mem://b": parquetOf(t, `[{"x": "1"}]`, field("x", arrow.BinaryTypes.String)),
	}
	damaged := memoryStore{"mem://a": slices.Concat(store["mem://a"][:40], []byte("garbage"), store["mem://a"][47:])}
	dense := []*pb.Feature{feature(pb.Layout_DENSE, "x")}
	for name, tt := range map[string]struct {
		spec  *pb.Spec
		store memoryStore
	}{
		"a type conflict":        {&pb.Spec{Features: dense}, other},
		"no Parquet":             {&pb.Spec{Features: dense}, memoryStore{"mem://a": []byte("nonsense")}},
		"a damaged page":         {&pb.Spec{Features: dense}, damaged},
		"an unknown feature":     {&pb.Spec{Features: []*pb.Feature{feature(pb.Layout_DENSE, "z")}}, store},
		"a glob without matches": {&pb.Spec{Features: []*pb.Feature{feature(pb.Layout_DENSE, "z*")}}, store},
		"no features":            {&pb.Spec{}, store},
		"a dense list":           {&pb.Spec{Features: []*pb.Feature{feature(pb.Layout_DENSE, "l")}}, store},
		"a null label":           {&pb.Spec{Features: []*pb.Feature{feature(pb.Layout_LABEL, "x")}}, store},
		"an unknown op": {
			&pb.Spec{Features: dense, Transforms: []*pb.Transform{{Op: "z", In: []string{"x"}}}},
			store,
		},
		"a bad filter":           {&pb.Spec{Features: dense, Filter: "x =="}, store},
		"a bad partition filter": {&pb.Spec{Features: dense, Dataset: &pb.Dataset{Partitions: "=="}}, store},
		"a bad default": {
			&pb.Spec{Features: []*pb.Feature{{Name: []string{"x"}, Layout: pb.Layout_DENSE, Default: value("a")}}},
			store,
		},
	} {
		in, err := New(t.Context(), tt.spec, tt.store)
		if err == nil {
			_, err = in.Expected(t.Context(), 0, nil)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
