package encode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/decimal256"
	"github.com/apache/arrow/go/v15/arrow/float16"
	"github.com/apache/arrow/go/v15/arrow/memory"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// scalars are types of leaves.
func scalars() []arrow.DataType {
	return []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint16, arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64,
		arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64,
		arrow.BinaryTypes.String, arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeString,
		&arrow.FixedSizeBinaryType{ByteWidth: 3}, &arrow.FixedSizeBinaryType{ByteWidth: 70},
		arrow.FixedWidthTypes.Date32, arrow.FixedWidthTypes.Timestamp_us,
		&arrow.Decimal128Type{Precision: 12, Scale: 3}, &arrow.Decimal256Type{Precision: 40, Scale: 3},
	}
}

func drawType(t *rapid.T, depth int) arrow.DataType {
	scalar := rapid.SampledFrom(scalars()).Draw(t, "type")
	if depth == 0 {
		return scalar
	}
	switch rapid.IntRange(0, 5).Draw(t, "nesting") {
	case 0:
		return arrow.ListOf(drawType(t, depth-1))
	case 1:
		return arrow.StructOf(arrow.Field{Name: "a", Type: drawType(t, depth-1), Nullable: true},
			arrow.Field{Name: "b", Type: scalar, Nullable: true})
	case 2:
		return arrow.MapOf(arrow.BinaryTypes.String, drawType(t, depth-1))
	case 3:
		return arrow.FixedSizeListOf(2, scalar)
	}
	return scalar
}

// drawn appends values: some of few, some of many, some at the ends of what there is.
func drawn(t *rapid.T, b array.Builder, n int, share float64, nulls bool) {
	wide := rapid.Bool().Draw(t, "wide")
	for range n {
		if nulls && rapid.Float64Range(0, 1).Draw(t, "null") >= share {
			b.AppendNull()
			continue
		}
		v := rapid.Int64Range(-3, 3).Draw(t, "value")
		if wide {
			v = rapid.Int64().Draw(t, "value")
		}
		odd := rapid.IntRange(0, 9).Draw(t, "odd")
		length := rapid.IntRange(0, 4).Draw(t, "length")
		f := float64(v)
		switch odd {
		case 0:
			f = math.NaN()
		case 1:
			f = math.Copysign(0, -1)
		case 2:
			f = math.Inf(1)
		}
		switch b := b.(type) {
		case *array.BooleanBuilder:
			b.Append(v > 0)
		case *array.Int8Builder:
			b.Append(int8(v))
		case *array.Uint16Builder:
			b.Append(uint16(v))
		case *array.Int32Builder:
			b.Append(int32(v))
		case *array.Uint32Builder:
			b.Append(uint32(v))
		case *array.Int64Builder:
			b.Append(v)
		case *array.Uint64Builder:
			b.Append(uint64(v))
		case *array.Float16Builder:
			h := float16.New(float32(f))
			if odd > 4 {
				h = float16.FromBits(uint16(v)) // the smallest numbers, too
			}
			b.Append(h)
		case *array.Float32Builder:
			b.Append(float32(f))
		case *array.Float64Builder:
			b.Append(f)
		case *array.StringBuilder:
			b.Append(drawnText(v, odd))
		case *array.LargeStringBuilder:
			b.Append(drawnText(v, odd))
		case *array.BinaryBuilder:
			b.Append(append(bytes.Repeat([]byte{byte(0xfe + v&1)}, odd*10), byte(v)))
		case *array.FixedSizeBinaryBuilder:
			b.Append(bytes.Repeat([]byte{byte(v)}, b.Type().(*arrow.FixedSizeBinaryType).ByteWidth))
		case *array.Date32Builder:
			b.Append(arrow.Date32(v))
		case *array.TimestampBuilder:
			b.Append(arrow.Timestamp(v))
		case *array.Decimal128Builder:
			b.Append(decimal128.FromI64(v % 1e12))
		case *array.Decimal256Builder:
			b.Append(decimal256.FromI64(v))
		case *array.ListBuilder:
			b.Append(true)
			drawn(t, b.ValueBuilder(), length, share, true)
		case *array.FixedSizeListBuilder:
			b.Append(true)
			drawn(t, b.ValueBuilder(), 2, share, true)
		case *array.StructBuilder:
			b.Append(true)
			for i := range b.NumField() {
				drawn(t, b.FieldBuilder(i), 1, share, true)
			}
		case *array.MapBuilder:
			b.Append(true)
			drawn(t, b.KeyBuilder(), length, 1, false)
			drawn(t, b.ItemBuilder(), length, share, true)
		default:
			t.Fatalf("no values of %T", b)
		}
	}
}

func drawnText(v int64, odd int) string {
	return strings.Repeat("ä€", odd*8) + string(rune(0x10ffff*(odd&1))) + fmt.Sprint(v)
}

// tester is a test, or one of many of a property.
type tester interface {
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// written encodes records as row groups, with small pages.
func written(t tester, s *arrow.Schema, groups [][]arrow.Record, at cuts) []byte {
	e, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	e.chunk.cuts = at
	var out bytes.Buffer
	if err := e.Begin(&out); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		rows := int64(0)
		for _, rec := range g {
			rows += rec.NumRows()
		}
		e.RowGroup(rows)
		for i := range s.Fields() {
			var values []arrow.Array
			for _, rec := range g {
				values = append(values, rec.Column(i))
			}
			if err := e.Column(i, values); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.End(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// lines are a record's rows as text.
func lines(rec arrow.Record) (out []string) {
	for i := range int(rec.NumRows()) {
		line := ""
		for _, c := range rec.Columns() {
			line += "|" + textOf(c, i)
		}
		out = append(out, line)
	}
	return out
}

func textOf(a arrow.Array, i int) (text string) {
	if a.IsNull(i) {
		return "null"
	}
	switch a := a.(type) {
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		for k := from; k < to; k++ {
			text += textOf(a.ListValues(), int(k)) + ","
		}
		return "[" + text + "]"
	case *array.Struct:
		for k := range a.NumField() {
			text += textOf(a.Field(k), i) + ","
		}
		return "{" + text + "}"
	}
	return a.ValueStr(i)
}

// TestEncode: whatever is written, Arrow's reader reads it again, parquet-go finds its pages where the indexes say, with
// the values that they say, and what Penstock knows of the pages does not contradict itself.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fields []arrow.Field
		for i := range rapid.IntRange(1, 3).Draw(t, "columns") {
			fields = append(fields, arrow.Field{
				Name: fmt.Sprint("c.", i), Type: drawType(t, 2), Nullable: rapid.Bool().Draw(t, "nullable"),
			})
		}
		s := arrow.NewSchema(fields, nil)
		var groups [][]arrow.Record
		var want []string
		for range rapid.IntRange(0, 2).Draw(t, "groups") {
			var group []arrow.Record
			share := rapid.SampledFrom([]float64{0, 0.05, 0.5, 1}).Draw(t, "share")
			for range rapid.IntRange(1, 3).Draw(t, "records") {
				b := array.NewRecordBuilder(memory.DefaultAllocator, s)
				n := rapid.IntRange(1, 60).Draw(t, "rows")
				for i, f := range fields {
					drawn(t, b.Field(i), n, share, f.Nullable)
				}
				rec := b.NewRecord()
				from := rapid.Int64Range(0, int64(n-1)).Draw(t, "from")
				rec = rec.NewSlice(from, int64(n))
				group, want = append(group, rec), append(want, lines(rec)...)
			}
			groups = append(groups, group)
		}
		data := written(t, s, groups, cuts{
			rows:  rapid.Int64Range(1, 200).Draw(t, "page rows"),
			bytes: rapid.IntRange(1, 400).Draw(t, "page bytes"), few: rapid.IntRange(0, 20).Draw(t, "few"),
		})
		if got := readByArrow(t, data); !slices.Equal(got, want) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		checkIndexes(t, data)
		checkStats(t, data)
	})
}

func readByArrow(t tester, data []byte) (out []string) {
	f, err := parquetfile.NewParquetReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := r.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	records := array.NewTableReader(table, 0)
	for records.Next() {
		out = append(out, lines(records.Record())...)
	}
	return out
}

// checkIndexes compares page indexes with what parquet-go finds in the pages.
func checkIndexes(t tester, data []byte) {
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	columns, at := f.ColumnIndexes(), 0
	for g, group := range f.RowGroups() {
		for i, c := range group.ColumnChunks() {
			meta := f.Metadata().RowGroups[g].Columns[i].MetaData
			places := f.OffsetIndexes()[at].PageLocations
			begin, end := meta.DataPageOffset, meta.DataPageOffset
			if meta.DictionaryPageOffset > 0 {
				begin = meta.DictionaryPageOffset
			}
			rows := int64(0)
			pages := c.Pages()
			for p, place := range places {
				if place.Offset != end || place.FirstRowIndex != rows {
					t.Fatalf("page %d lies at %d, row %d: not %d, %d", p, place.Offset, place.FirstRowIndex, end, rows)
				}
				end += int64(place.CompressedPageSize)
				if err := pages.SeekToRow(place.FirstRowIndex); err != nil {
					t.Fatal(err)
				}
				page, err := pages.ReadPage()
				if err != nil {
					t.Fatal(err)
				}
				rows += page.NumRows()
				values := make([]parquet.Value, page.NumValues())
				if n, err := page.Values().ReadValues(values); n != len(values) || err != nil && !errors.Is(err, io.EOF) {
					t.Fatalf("%d of %d values: %v", n, len(values), err)
				}
				x := &columns[at]
				if len(x.NullPages) > 0 {
					checkPage(t, c.Type(), values, x.NullPages[p], x.MinValues[p], x.MaxValues[p], x.NullCounts[p])
				}
			}
			if rows != group.NumRows() || end != begin+meta.TotalCompressedSize {
				t.Fatalf("%d rows up to %d", rows, end)
			}
			at++
		}
	}
}

// checkPage compares what an index says with the values that parquet-go read.
func checkPage(t tester, typ parquet.Type, values []parquet.Value, empty bool, low, high []byte, nulls int64) {
	var there []parquet.Value
	for _, v := range values {
		if !v.IsNull() {
			there = append(there, v)
		}
	}
	if int(nulls) != len(values)-len(there) || empty != (len(there) == 0) {
		t.Fatalf("%d nulls (%v) of %d, %d there", nulls, empty, len(values), len(there))
	}
	if empty {
		return
	}
	lo, hi := typ.Kind().Value(low), typ.Kind().Value(high)
	reached := [2]bool{}
	for _, v := range there {
		if isNaN(typ, v) {
			continue
		}
		a, b := compareValues(typ, lo, v), compareValues(typ, v, hi)
		if a > 0 || b > 0 {
			t.Fatalf("%v is not between %v and %v", v, lo, hi)
		}
		reached[0], reached[1] = reached[0] || a == 0, reached[1] || b == 0
	}
	if reached != [2]bool{true, true} && (typ.Kind() != parquet.ByteArray || len(low) < 30 && len(high) < 30) {
		t.Fatalf("no value is %v or %v", lo, hi)
	}
	if max(len(low), len(high)) > longestBound {
		t.Fatalf("long bounds %q and %q", low, high)
	}
	if is[*format.StringType](typ) && (!utf8.Valid(low) || !utf8.Valid(high)) {
		t.Fatalf("bounds %q and %q are no text", low, high)
	}
}

func isNaN(typ parquet.Type, v parquet.Value) bool {
	switch {
	case typ.Kind() == parquet.Float:
		return v.Float() != v.Float()
	case typ.Kind() == parquet.Double:
		return v.Double() != v.Double()
	case isHalf(typ):
		return halfOf(v) != halfOf(v)
	}
	return false
}

// is reports whether a type has that logical type.
func is[T any](typ parquet.Type) bool {
	logical := typ.LogicalType()
	if logical == nil {
		return false
	}
	_, ok := logical.Value.(T)
	return ok
}

// isHalf tells halves by their length: parquet-go does not know them.
func isHalf(typ parquet.Type) bool {
	return typ.Kind() == parquet.FixedLenByteArray && typ.Length() == 2
}

// halfOf knows the smallest numbers, which Arrow's does not.
func halfOf(v parquet.Value) float64 {
	bits := binary.LittleEndian.Uint16(v.ByteArray())
	sign := 1 - 2*float64(bits>>15)
	fraction, exponent := float64(bits&0x3ff)/1024, int(bits>>10&0x1f)
	switch {
	case exponent == 0:
		return sign * math.Ldexp(fraction, -14)
	case exponent < 0x1f:
		return sign * math.Ldexp(1+fraction, exponent-15)
	case fraction > 0:
		return math.NaN()
	}
	return sign * math.Inf(1)
}

// compareValues knows orders that parquet-go does not.
func compareValues(typ parquet.Type, a, b parquet.Value) int {
	switch {
	case isHalf(typ):
		return cmp.Compare(halfOf(a), halfOf(b))
	case is[*format.DecimalType](typ):
		return signed(a.ByteArray()).Cmp(signed(b.ByteArray()))
	}
	return typ.Compare(a, b)
}

func signed(v []byte) *big.Int {
	i := new(big.Int).SetBytes(v)
	if v[0]&0x80 != 0 {
		i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
	}
	return i
}

// checkStats has Penstock's reader compare indexes with footers.
func checkStats(t tester, data []byte) {
	size := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	f, err := footer.Read(data[len(data)-8-size : len(data)-8])
	if err != nil {
		t.Fatal(err)
	}
	for g := range f.RowGroups {
		for i := range f.RowGroups[g].Chunks {
			c := &f.RowGroups[g].Chunks[i]
			if c.Stats.Contradiction != "" {
				t.Fatal(c.Stats.Contradiction)
			}
			at, of := c.OffsetIndex(), c.ColumnIndex()
			pages, err := f.Pages(g, i, data[at.Offset:at.Offset+at.Length])
			if err != nil {
				t.Fatal(err)
			}
			if of.Length == 0 || f.Leaves[i].MaxRep > 0 {
				continue
			}
			if _, err := f.PageStats(g, i, pages, data[of.Offset:of.Offset+of.Length]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDictionaries: values that repeat are numbered, if that is clearly less, and in pages as they are cut in files.
func TestDictionaries(t *testing.T) {
	const rows = 70_000
	for name, tt := range map[string]struct {
		value func(i int) int64
		coded bool
	}{
		"one":       {func(int) int64 { return 7 }, true},
		"few":       {func(i int) int64 { return int64(i * i % 11) }, true},
		"sorted":    {func(i int) int64 { return int64(i / 100) }, true},
		"thousands": {func(i int) int64 { return int64(hash(binary.LittleEndian.AppendUint64(nil, uint64(i))) % 5000) }, true},
		"different": {func(i int) int64 { return int64(i) * 7919 }, false},
		"later":     {func(i int) int64 { return int64(max(i, 60_000)) }, true},
	} {
		for _, text := range []bool{false, true} {
			s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
			if text {
				s = arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true}}, nil)
			}
			b := array.NewRecordBuilder(memory.DefaultAllocator, s)
			for i := range rows {
				switch b := b.Field(0).(type) {
				case *array.Int64Builder:
					b.Append(tt.value(i))
				case *array.StringBuilder:
					b.Append(fmt.Sprint(tt.value(i)))
				}
			}
			rec := b.NewRecord()
			data := written(t, s, [][]arrow.Record{{rec}}, defaultCuts())
			if got := readByArrow(t, data); !slices.Equal(got, lines(rec)) {
				t.Errorf("%s: other values are read", name)
			}
			checkIndexes(t, data)
			f, err := parquetfile.NewParquetReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			chunk, err := f.MetaData().RowGroup(0).ColumnChunk(0)
			if err != nil || chunk.HasDictionaryPage() != tt.coded {
				t.Errorf("%s: a dictionary: %v, %v", name, chunk.HasDictionaryPage(), err)
			}
		}
	}
}

// TestNullWhereNoneMayBe: a key that is null is an error that names it.
func TestNullWhereNoneMayBe(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendNull()
	e, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Begin(io.Discard); err != nil {
		t.Fatal(err)
	}
	e.RowGroup(1)
	if err := e.Column(0, []arrow.Array{b.NewArray()}); err == nil || !strings.Contains(err.Error(), "x has a null") {
		t.Errorf("got %v", err)
	}
}
