package arrow_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

func load(t testing.TB, data []byte) (format.File, error) {
	t.Helper()
	st := &filetest.One{URI: "mem://x.arrow", Data: data}
	return formats.Load(t.Context(), st, "", st.File(), nil)
}

// schema has what both Arrow's and Parquet's files can hold, as Go's writers write it.
func schema() *arrow.Schema {
	opt := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	return arrow.NewSchema([]arrow.Field{
		opt("bool", arrow.FixedWidthTypes.Boolean),
		opt("i8", arrow.PrimitiveTypes.Int8), opt("u16", arrow.PrimitiveTypes.Uint16),
		opt("u32", arrow.PrimitiveTypes.Uint32), opt("u64", arrow.PrimitiveTypes.Uint64),
		opt("f32", arrow.PrimitiveTypes.Float32), opt("f64", arrow.PrimitiveTypes.Float64),
		opt("text", arrow.BinaryTypes.String), opt("fixed", &arrow.FixedSizeBinaryType{ByteWidth: 3}),
		opt("decimal", &arrow.Decimal128Type{Precision: 20, Scale: 3}),
		opt("date", arrow.FixedWidthTypes.Date32), opt("us", arrow.FixedWidthTypes.Timestamp_us),
		opt("list", arrow.ListOf(arrow.PrimitiveTypes.Int64)), opt("texts", arrow.ListOf(arrow.BinaryTypes.Binary)),
		opt("map", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64)),
		opt("struct", arrow.StructOf(opt("a", arrow.PrimitiveTypes.Int32),
			opt("b", arrow.ListOf(arrow.PrimitiveTypes.Float32)))),
		opt("structs", arrow.ListOf(arrow.StructOf(opt("x", arrow.PrimitiveTypes.Int32),
			opt("y", arrow.BinaryTypes.String)))),
		opt("deep", arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int32))),
		opt("last", arrow.PrimitiveTypes.Int32),
	}, nil)
}

// records have so many rows each, all of them null, or empty.
func records(s *arrow.Schema, rows ...int) []arrow.Record {
	var out []arrow.Record
	for _, n := range rows {
		columns := make([]arrow.Array, len(s.Fields()))
		for i, f := range s.Fields() {
			b := array.NewBuilder(memory.DefaultAllocator, f.Type)
			for range n {
				b.AppendNull()
			}
			columns[i] = b.NewArray()
		}
		out = append(out, array.NewRecord(s, columns, int64(n)))
	}
	return out
}

// TestColumnsAreParquets: a table has the same columns and extents, whichever format it was written in.
func TestColumnsAreParquets(t *testing.T) {
	s := schema()
	all := records(s, 100, 7)
	want, err := load(t, filetest.Parquet(t, s, all))
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]ipc.Option{"plain": nil, "zstd": {ipc.WithZstd()}, "lz4": {ipc.WithLZ4()}} {
		got, err := load(t, filetest.Arrow(t, s, all, options...))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(got.Extents(), want.Extents()) {
			t.Errorf("%s: extents %v, want %v", name, got.Extents(), want.Extents())
		}
		a, b := got.Columns().Schema.Columns, want.Columns().Schema.Columns
		if len(a) != len(b) {
			t.Fatalf("%s: %d columns, want %d", name, len(a), len(b))
		}
		for i := range a {
			if !reflect.DeepEqual(a[i], b[i]) {
				t.Errorf("%s: column %+v, want %+v", name, a[i], b[i])
			}
		}
	}
}

// TestDamage: whatever bytes of a file are others, it is described or refused.
func TestDamage(t *testing.T) {
	s := schema()
	good := filetest.Arrow(t, s, records(s, 3, 2))
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 3000 {
		data := bytes.Clone(good)
		for range 1 + r.IntN(3) {
			data[r.IntN(len(data)-len("ARROW1"))] = byte(r.Uint32())
		}
		f, err := load(t, data)
		if err != nil {
			refused++
			continue
		}
		for i := range f.Columns().Schema.Columns {
			_ = f.Stored(i)
		}
	}
	if refused == 0 {
		t.Error("none was refused")
	}
	var stream bytes.Buffer
	if err := ipc.NewWriter(&stream, ipc.WithSchema(s)).Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a stream":              {stream.Bytes(), "stream format, which is not read: write it as a file"},
		"headers on each other": {onEachOther(good), "lie on each other"},
		"cut short":             {good[:len(good)-20], "begins as Arrow does, but ends in"},
		"no more than its end":  {good[len(good)-10:], "it is damaged"},
	} {
		if _, err := load(t, c.data); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "mem://x.arrow") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// onEachOther makes the footer's second record batch have the place of the first.
func onEachOther(file []byte) []byte {
	data := bytes.Clone(file)
	le := binary.LittleEndian
	footer := data[len(data)-10-int(le.Uint32(data[len(data)-10:])) : len(data)-10]
	for at := 0; at+48 <= len(footer); at += 4 { // a vector of two blocks stands after its length
		first, second := footer[at:][:24], footer[at+24:][:24]
		end := le.Uint64(first) + uint64(le.Uint32(first[8:])) + le.Uint64(first[16:])
		if at >= 4 && le.Uint32(footer[at-4:]) == 2 && end == le.Uint64(second) {
			copy(second, first)
			return data
		}
	}
	return nil
}

// TestText reads which columns of byte strings are text, wherever these lie.
func TestText(t *testing.T) {
	text, plain := arrow.BinaryTypes.String, arrow.BinaryTypes.Binary
	opt := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	s := arrow.NewSchema([]arrow.Field{
		opt("text", text), opt("large", arrow.BinaryTypes.LargeString), opt("plain", plain),
		opt("large_plain", arrow.BinaryTypes.LargeBinary), opt("fixed", &arrow.FixedSizeBinaryType{ByteWidth: 3}),
		opt("number", arrow.PrimitiveTypes.Int32),
		opt("coded", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: text}),
		opt("s", arrow.StructOf(opt("text", text), opt("plain", plain))),
		opt("list", arrow.ListOf(text)), opt("deep", arrow.ListOf(arrow.LargeListOf(text))),
		opt("three", arrow.FixedSizeListOf(3, text)), opt("plains", arrow.ListOf(plain)),
		opt("structs", arrow.ListOf(arrow.StructOf(opt("x", text), opt("y", plain)))),
		opt("names", arrow.MapOf(arrow.PrimitiveTypes.Int64, text)),
		opt("counts", arrow.MapOf(text, arrow.PrimitiveTypes.Int64)),
	}, nil)
	f, err := load(t, filetest.Arrow(t, s, records(s, 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"text": true, "large": true, "plain": false, "large_plain": false, "fixed": false, "number": false,
		"coded": true, "s.text": true, "s.plain": false, "list": true, "deep": true, "three": true, "plains": false,
		"structs.x": true, "structs.y": false,
		"names": true, "names.key": false, "names.value": true,
		"counts": false, "counts.key": true, "counts.value": false,
	}
	for _, c := range f.Columns().Schema.Columns {
		if is, ok := want[c.Name]; c.Text != is || !ok || c.Unsupported != "" {
			t.Errorf("%+v, want text %t", c, is)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("no columns %v", want)
	}
}
