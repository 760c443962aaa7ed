package parquet_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// record makes a record from JSON rows.
func record(t testing.TB, schema *arrow.Schema, rows string) arrow.Record {
	t.Helper()
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// write makes a Parquet file with a row group for each record.
func write(t testing.TB, schema *arrow.Schema, recs ...arrow.Record) []byte {
	t.Helper()
	var buf bytes.Buffer
	props := parquet.NewWriterProperties(parquet.WithDataPageVersion(parquet.DataPageV2))
	w, err := pqarrow.NewFileWriter(schema, &buf, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func oneColumn(t testing.TB, rows int) []byte {
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64}}, nil)
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, ",{\"v\":%d}", i)
	}
	return write(t, schema, record(t, schema, "["+b.String()[1:]+"]"))
}

func wide(t testing.TB, columns int) []byte {
	fields := make([]arrow.Field, columns)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("c%d", i), Type: arrow.PrimitiveTypes.Float32, Nullable: true}
	}
	schema := arrow.NewSchema(fields, nil)
	return write(t, schema, record(t, schema, "[{}]"))
}

func TestArrowSchema(t *testing.T) {
	list := arrow.ListOf(arrow.PrimitiveTypes.Int64)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.PrimitiveTypes.Int32},
		{Name: "u8", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
		{Name: "u32", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
		{Name: "u64", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		{Name: "ok", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
		{Name: "price", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}, Nullable: true},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "hash", Type: &arrow.FixedSizeBinaryType{ByteWidth: 4}, Nullable: true},
		{Name: "ids", Type: list, Nullable: true},
		{Name: "sure", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32)},
		{Name: "user", Nullable: true, Type: arrow.StructOf(
			arrow.Field{Name: "age", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
			arrow.Field{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		)},
		{Name: "scores", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "deep", Type: arrow.ListOf(list), Nullable: true},
		{
			Name: "boxes", Type: arrow.ListOf(arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32})),
			Nullable: true,
		},
		{Name: "bags", Type: arrow.MapOf(arrow.PrimitiveTypes.Int64, list), Nullable: true},
		{
			Name: "ranked", Nullable: true,
			Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32)),
		},
		{Name: "odd", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOf(arrow.StructOf(arrow.Field{Name: "x", Type: list}))), Nullable: true},
	}, nil)
	f := load(t, write(t, schema, record(t, schema, `[{"label":1,"sure":[]}]`)))
	want := strings.TrimSpace((`
label int32: label 0/0 row 0 list 0
u8 int32 of uint8: u8 1/0 row 1 list 0
u32 int64 of uint32: u32 1/0 row 1 list 0
u64 int64: u64 1/0 row 1 list 0
ok bool: ok 1/0 row 1 list 0
day int32: day 1/0 row 1 list 0
at int64: at 1/0 row 1 list 0
price float64: price 1/0 row 1 list 0
name binary: name 1/0 row 1 list 0
hash binary: hash 1/0 row 1 list 0
ids list<int64>: ids.list.element 3/1 row 1 list 2
sure list<float32>: sure.list.element 2/1 row 0 list 1
user.age float64: user.age 2/0 row 2 list 0
user.tags list<binary>: user.tags.list.element 4/1 row 2 list 3
scores map<binary>float32: scores.key_value.key 2/1 row 1 list 2 scores.key_value.value 3/1 row 1 list 2
scores.key list<binary>: scores.key_value.key 2/1 row 1 list 2
scores.value list<float32>: scores.key_value.value 3/1 row 1 list 2
deep list<list<int64>>: deep.list.element.list.element 5/2 row 1 list 2 null 3 list 4
boxes.x list<int32>: boxes.list.element.x 3/1 row 1 list 2
bags map<int64>list<int64>: bags.key_value.key 2/1 row 1 list 2 ` +
		`bags.key_value.value.list.element 5/2 row 1 list 2 null 3 list 4
bags.key list<int64>: bags.key_value.key 2/1 row 1 list 2
bags.value list<list<int64>>: bags.key_value.value.list.element 5/2 row 1 list 2 null 3 list 4
ranked.*.key map<binary>list<int64>: ranked.key_value.key 2/1 row 1 list 2 ` +
		`ranked.key_value.value.key_value.key 4/2 row 1 list 2 null 3 list 4
ranked.*.value map<binary>list<float32>: ranked.key_value.key 2/1 row 1 list 2 ` +
		`ranked.key_value.value.key_value.value 5/2 row 1 list 2 null 3 list 4
ranked.key list<binary>: ranked.key_value.key 2/1 row 1 list 2
ranked.value.key list<list<int64>>: ranked.key_value.value.key_value.key 4/2 row 1 list 2 null 3 list 4
ranked.value.value list<list<float32>>: ranked.key_value.value.key_value.value 5/2 row 1 list 2 null 3 list 4
odd unsupported: a map whose values are lists of structs`))
	if got := describe(f); got != want {
		t.Errorf("schema:\n%s\nwant:\n%s", got, want)
	}
}

func TestArrowRowGroups(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "v", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
	}, nil)
	data := write(t, schema,
		record(t, schema, `[{"v":3,"s":"b","ids":[7,8]},{"v":-4,"s":"a","ids":[]}]`),
		record(t, schema, `[]`),
		record(t, schema, `[{"v":null,"s":null,"ids":null}]`),
	)
	f := load(t, data)
	if f.Rows != 3 || len(f.RowGroups) != 3 {
		t.Fatalf("%d rows in %d row groups, want 3 in 3", f.Rows, len(f.RowGroups))
	}
	var end int64 = 4
	for i, want := range []struct{ rows, first, values int64 }{{2, 0, 3}, {0, 2, 0}, {1, 2, 1}} {
		g := f.RowGroups[i]
		if g.Rows != want.rows || g.FirstRow != want.first {
			t.Errorf("row group %d: %d rows from %d, want %d from %d", i, g.Rows, g.FirstRow, want.rows, want.first)
		}
		if got := g.Chunks[2].Values; got != want.values {
			t.Errorf("row group %d: %d values of ids, want %d", i, got, want.values)
		}
		for j, c := range g.Chunks {
			if (c.Length > 0) != (want.rows > 0) {
				t.Errorf("row group %d, leaf %d has %d bytes", i, j, c.Length)
			}
			if c.Length > 0 && c.Offset < end {
				t.Errorf("row group %d, leaf %d begins at %d, the one before ends at %d", i, j, c.Offset, end)
			}
			end = max(end, c.Offset+c.Length)
		}
	}
	v, s, empty := f.RowGroups[0].Chunks[0].Stats, f.RowGroups[0].Chunks[1].Stats, f.RowGroups[2].Chunks[0].Stats
	if !bytes.Equal(v.Min, []byte{0xfc, 0xff, 0xff, 0xff}) || !bytes.Equal(v.Max, []byte{3, 0, 0, 0}) || v.Nulls != 0 {
		t.Errorf("statistics of v: %+v", v)
	}
	if string(s.Min) != "a" || string(s.Max) != "b" {
		t.Errorf("statistics of s: %+v", s)
	}
	if empty.Min != nil || empty.Max != nil || empty.Nulls != 1 {
		t.Errorf("statistics of nulls: %+v", empty)
	}
	if f.Size < 1000 || f.Size > 20_000 {
		t.Errorf("it is said to take %d bytes", f.Size)
	}
}
