package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	pq "github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// parquetFile writes a table, given as JSON, with old pages and row groups of 2 rows.
func parquetFile(t testing.TB, json string, fields ...arrow.Field) string {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	props := pq.NewWriterProperties(pq.WithMaxRowGroupLength(2), pq.WithCompression(compress.Codecs.Snappy))
	w, err := pqarrow.NewFileWriter(schema, &out, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, "a.parquet", out.String())
}

func nullable(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// Every type that arrow's writer can write passes through, as a column and as elements of a list.
func TestParquetTypes(t *testing.T) {
	for _, tt := range []struct {
		typ  arrow.DataType
		a, b string // values in JSON
	}{
		{arrow.FixedWidthTypes.Boolean, "true", "false"},
		{arrow.PrimitiveTypes.Int8, "-1", "7"},
		{arrow.PrimitiveTypes.Int16, "-1", "7"},
		{arrow.PrimitiveTypes.Int32, "-1", "7"},
		{arrow.PrimitiveTypes.Int64, "-1", "7"},
		{arrow.PrimitiveTypes.Uint8, "255", "7"},
		{arrow.PrimitiveTypes.Uint16, "65535", "7"},
		{arrow.PrimitiveTypes.Uint64, "9223372036854775808", "7"},
		{arrow.FixedWidthTypes.Float16, "0.5", "-2"},
		{arrow.PrimitiveTypes.Float32, "0.5", "-2"},
		{arrow.PrimitiveTypes.Float64, "0.5", "-2"},
		{arrow.BinaryTypes.String, `"ü"`, `""`},
		{arrow.BinaryTypes.Binary, `"AAE="`, `""`},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `"AAEC"`, `"////"`},
		{arrow.FixedWidthTypes.Date32, `"2026-01-02"`, `"1969-12-31"`},
		{arrow.FixedWidthTypes.Time32ms, `"01:02:03.004"`, `"00:00:00"`},
		{arrow.FixedWidthTypes.Time64us, `"01:02:03.004005"`, `"00:00:00"`},
		{
			&arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}, `"2026-01-02 03:04:05.006"`,
			`"1970-01-01 00:00:00"`,
		},
		{
			&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, `"2026-01-02 03:04:05.006007"`,
			`"1970-01-01 00:00:00"`,
		},
		{&arrow.Decimal128Type{Precision: 12, Scale: 3}, `"-12.345"`, `"0"`},
		{
			arrow.StructOf(nullable("a", arrow.PrimitiveTypes.Int64), nullable("b", arrow.ListOf(arrow.BinaryTypes.String))),
			`{"a": 1, "b": ["x", null]}`, `{"a": null, "b": null}`,
		},
		{arrow.ListOf(arrow.PrimitiveTypes.Int32), `[1, null]`, `[]`},
		{
			arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int64)),
			`[{"key": "k", "value": [1, null]}, {"key": "k", "value": null}]`, `[]`,
		},
	} {
		json := strings.NewReplacer("A", tt.a, "B",
			tt.b).Replace(`[{"x": A, "l": [A, null, B]}, {"x": null, "l": null}, {"x": B, "l": []}]`)
		in := parquetFile(t, json, nullable("x", tt.typ), nullable("l", arrow.ListOf(tt.typ)))
		r, err := Run(t.Context(), Options{Inputs: []string{in, in}, Output: filepath.Join(t.TempDir(), "out")})
		if err != nil {
			t.Errorf("%v: %v", tt.typ, err)
			continue
		}
		before := table(t, in)
		after := table(t, r.Files...)
		expect(t, after[1:], append(before[1:], before[1:]...)...)
		if r.Rows != 6 {
			t.Errorf("%v: %d rows", tt.typ, r.Rows)
		}
	}
}

// Rows may be longer than what arrow's writer writes at once, and than a page.
func TestLongLists(t *testing.T) {
	const length = 600_000
	for _, typ := range []arrow.DataType{arrow.FixedWidthTypes.Float16, arrow.PrimitiveTypes.Int64} {
		list := "[" + strings.Repeat("3, ", length-1) + "4]"
		in := parquetFile(t, `[{"l": [1]}, {"l": `+list+`}, {"l": null}, {"l": `+list+`}, {"l": [2]}]`,
			nullable("l", arrow.ListOf(typ)))
		r := run(t, Options{Inputs: []string{in}})
		expect(t, table(t, r.Files...), table(t, in)...)
	}
}

// Times of no zone are none of UTC, and the other way round.
func TestZones(t *testing.T) {
	utc := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	local := &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "local"} // as arrow's writer takes any zone but UTC
	at := `"2026-01-02 03:04:05.006007"`
	in := parquetFile(t, `[{"u": `+at+`, "l": `+at+`, "many": [`+at+`]}]`, nullable("u", utc), nullable("l", local),
		nullable("many", arrow.ListOf(local)))
	r := run(t, Options{Inputs: []string{in, in}})
	for _, name := range append(r.Files, in) {
		f, err := parquetfile.OpenParquetFile(name, false)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for i, want := range []bool{true, false, false} {
			logical, ok := f.MetaData().Schema.Column(i).LogicalType().(*schema.TimestampLogicalType)
			if !ok || logical.IsAdjustedToUTC() != want {
				t.Errorf("%s, column %d: %v, want UTC %v", name, i, logical, want)
			}
		}
	}
	rows := table(t, in)
	expect(t, table(t, r.Files...)[1:], append(rows[1:], rows[1:]...)...)
	_, err := Run(t.Context(),
		Options{Inputs: []string{in, parquetFile(t, `[{"u": `+at+`, "l": `+at+`, "many": [`+at+`]}]`,
			nullable("u", utc), nullable("l", &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}),
			nullable("many", arrow.ListOf(local)))}, Output: filepath.Join(t.TempDir(), "o")})
	if err == nil || !strings.Contains(err.Error(), "column 2 is l, timestamp[ns, tz=UTC], but in") {
		t.Errorf("a zone in one file and none in the other: %v", err)
	}
}

func TestDictionaryTypes(t *testing.T) {
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	in := parquetFile(t, `[{"x": "b"}, {"x": "a"}]`, nullable("x", typ))
	r := run(t, Options{Inputs: []string{in}})
	expect(t, table(t, r.Files...), "x utf8", "b", "a")
}

func TestHexOfParquet(t *testing.T) {
	in := parquetFile(t, `[{"c": "ff", "n": 1}, {"c": null, "n": 2}, {"c": "0000000a", "n": 3}]`,
		nullable("c", arrow.BinaryTypes.String), nullable("n", arrow.PrimitiveTypes.Int32))
	r := run(t, Options{Inputs: []string{in}, Hex: []string{"c*"}})
	expect(t, table(t, r.Files...), "c int64, n int32", "255|1", "(null)|2", "10|3")
	if _, err := Run(t.Context(), Options{
		Inputs: []string{in}, Hex: []string{"n"},
		Output: filepath.Join(t.TempDir(), "o"),
	}); err == nil {
		t.Error("hexadecimal numbers: no error")
	}
	bad := parquetFile(t, `[{"c": "ff"}, {"c": "xyz"}]`, nullable("c", arrow.BinaryTypes.String))
	_, err := Run(t.Context(), Options{
		Inputs: []string{bad}, Hex: []string{"c"},
		Output: filepath.Join(t.TempDir(), "o"),
	})
	if err == nil || !strings.Contains(err.Error(), "row 1") || !strings.Contains(err.Error(), "column c") {
		t.Errorf("got %v", err)
	}
}

func TestParquetErrors(t *testing.T) {
	x := nullable("x", arrow.PrimitiveTypes.Int64)
	good := parquetFile(t, `[{"x": 1}]`, x)
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	copy(damaged[20:], "garbage garbage")
	for name, inputs := range map[string][]string{
		"other types":   {good, parquetFile(t, `[{"x": "1"}]`, nullable("x", arrow.BinaryTypes.String))},
		"other columns": {good, parquetFile(t, `[{"y": 1}]`, nullable("y", arrow.PrimitiveTypes.Int64))},
		"more columns":  {good, parquetFile(t, `[{"x": 1, "y": 1}]`, x, nullable("y", arrow.PrimitiveTypes.Int64))},
		"other structs": {
			parquetFile(t, `[{"s": {"x": 1}}]`, nullable("s", arrow.StructOf(x))),
			parquetFile(t, `[{"s": {"y": 1}}]`, nullable("s", arrow.StructOf(nullable("y", x.Type)))),
		},
		"a damaged page": {write(t, "a.parquet", string(damaged))},
		"cut off":        {write(t, "a.parquet", string(whole[:len(whole)-10]))},
	} {
		_, err := Run(t.Context(), Options{Inputs: inputs, Output: filepath.Join(t.TempDir(), "out")})
		if err == nil || !strings.Contains(err.Error(), inputs[len(inputs)-1]) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestChunkAfterEnd has files whose second row group, or only one, should lie after their ends.
func TestChunkAfterEnd(t *testing.T) {
	x := nullable("x", arrow.ListOf(arrow.PrimitiveTypes.Int64))
	long := "[0" // than a footer
	for i := range 2000 {
		long += fmt.Sprintf(", %d", i*i)
	}
	long += "]"
	good := parquetFile(t, `[{"x": [1]}]`, x)
	for name, json := range map[string]string{
		"a later file":      `[{"x": ` + long + `}]`,
		"a later row group": `[{"x": [1]}, {"x": [2]}, {"x": ` + long + `}]`,
	} {
		whole, err := os.ReadFile(parquetFile(t, json, x))
		if err != nil {
			t.Fatal(err)
		}
		footer := len(whole) - 8 - int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
		damaged := write(t, "a.parquet", string(slices.Delete(whole, footer-3<<10, footer)))
		_, err = Run(t.Context(), Options{
			Inputs: []string{good, damaged, good},
			Output: filepath.Join(t.TempDir(), "out"),
		})
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), damaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The rows of a file are those of its row groups: parquet-rs 0.3 counted none in the footer.
func TestRowsOfTheFooter(t *testing.T) {
	good := parquetFile(t, `[{"x": 1}, {"x": 2}, {"x": 3}]`, nullable("x", arrow.PrimitiveTypes.Int64))
	counting := func(rows int64) []string {
		whole, err := os.ReadFile(good)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parquetfile.NewParquetReader(bytes.NewReader(whole))
		if err != nil {
			t.Fatal(err)
		}
		f.MetaData().NumRows = rows
		out := bytes.NewBuffer(whole[:len(whole)-8-int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))])
		n, err := f.MetaData().WriteTo(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
		out.WriteString("PAR1")
		return []string{write(t, "a.parquet", out.String())}
	}
	r := run(t, Options{Inputs: counting(0)})
	expect(t, table(t, r.Files...), "x int64", "1", "2", "3")
	for _, rows := range []int64{2, 4} {
		_, err := Run(t.Context(), Options{Inputs: counting(rows), Output: filepath.Join(t.TempDir(), "out")})
		if err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("its row groups have 3 rows, and the footer counts %d", rows)) {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
}

// Rows are read as far as their bytes go, however many rows a record might have.
func TestRecordsOfLargeValues(t *testing.T) {
	const rows, size = 40, 1 << 20
	json := strings.Repeat(`{"x": "`+strings.Repeat("v", size)+`"}, `, rows)
	in := parquetFile(t, "["+strings.TrimSuffix(json, ", ")+"]", nullable("x", arrow.BinaryTypes.String))
	o := Options{Inputs: []string{in}, Store: newStore(t)}
	found, err := find(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	src, err := openSource(t.Context(), o, &found)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	for left := int64(rows); left > 0; {
		rec, err := src.next(t.Context(), batchRows)
		if err != nil {
			t.Fatal(err)
		}
		if n := sizeOf(rec); n > 3*recordBytes { // the first of a file has 16 rows
			t.Errorf("a record of %d rows has %d bytes", rec.NumRows(), n)
		}
		left -= rec.NumRows()
	}
}

func TestEmptyParquet(t *testing.T) {
	x := nullable("x", arrow.PrimitiveTypes.Int64)
	r := run(t, Options{Inputs: []string{parquetFile(t, `[]`, x), parquetFile(t, `[]`, x)}})
	expect(t, table(t, r.Files...), "x int64")
	r = run(t, Options{Inputs: []string{parquetFile(t, `[]`, x), parquetFile(t, `[{"x": 3}]`, x)}})
	expect(t, table(t, r.Files...), "x int64", "3")
}

// Pages of lists begin with a row, and are many: of rows with more values than arrow's writer takes at once, too.
func TestPagesOfLists(t *testing.T) {
	const rows, length = 200, 3000
	var text strings.Builder
	for i := range rows * length {
		fmt.Fprintf(&text, "%s%d", map[bool]string{true: `]}, {"l": [`, false: ", "}[i%length == 0], i*7919*7919)
	}
	json := "[" + strings.TrimPrefix(text.String(), "]}, ") + "]}]"
	in := parquetFile(t, json, nullable("l", arrow.ListOf(arrow.PrimitiveTypes.Int64)))
	r := run(t, Options{Inputs: []string{in}})
	f, err := parquetfile.OpenParquetFile(r.Files[0], false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pages, err := f.RowGroup(0).GetColumnPageReader(0)
	if err != nil {
		t.Fatal(err)
	}
	found, all := 0, 0
	for ; pages.Next(); all++ {
		page, ok := pages.Page().(*parquetfile.DataPageV2)
		if !ok || int(page.NumRows())*length != int(page.NumValues()) {
			t.Fatalf("page %d has %d values: %+v", all, pages.Page().NumValues(), page)
		}
		found += int(page.NumRows())
	}
	if pages.Err() != nil || found != rows || all < 3 {
		t.Errorf("%d rows in %d pages: %v", found, all, pages.Err())
	}
}

// The files are what training wants: zstd, pages of version 2, dictionaries only where they pay, statistics.
func TestEncoding(t *testing.T) {
	var text strings.Builder
	text.WriteString("few,word,id\n")
	for i := range 5000 {
		fmt.Fprintf(&text, "%v,%s,%d\n", []float64{1.25, 7.5, -1}[i%3], []string{"red", "green"}[i%2], i*i*7919)
	}
	in := write(t, "a.csv", text.String())
	for _, tt := range []struct {
		column     int
		dictionary bool
	}{
		{0, true},
		{1, true},
		{2, false},
	} {
		r := run(t, Options{Inputs: []string{in}})
		f, err := parquetfile.OpenParquetFile(r.Files[0], false)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		chunk, err := f.MetaData().RowGroup(0).ColumnChunk(tt.column)
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Compression() != compress.Codecs.Zstd || chunk.HasDictionaryPage() != tt.dictionary {
			t.Errorf("column %d: %v, dictionary %v", tt.column, chunk.Compression(), chunk.HasDictionaryPage())
		}
		if set, err := chunk.StatsSet(); err != nil || !set {
			t.Errorf("column %d: statistics %v, %v", tt.column, set, err)
		}
		pages, err := f.RowGroup(0).GetColumnPageReader(tt.column)
		if err != nil {
			t.Fatal(err)
		}
		for pages.Next() {
			if _, old := pages.Page().(*parquetfile.DataPageV1); old {
				t.Errorf("column %d has a page of version 1", tt.column)
			}
		}
	}
}
