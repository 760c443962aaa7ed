package convert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"
)

// given is a source of records.
type given struct {
	of      *arrow.Schema
	records []arrow.Record
	each    func()
}

func (g *given) schema() *arrow.Schema           { return g.of }
func (g *given) read() (used, total int64)       { return 0, 0 }
func (g *given) behind() place                   { return place{} }
func (g *given) close()                          {}
func (g *given) seek(context.Context, int) error { return nil }

func (g *given) next(_ context.Context, limit int64) (rec arrow.Record, err error) {
	if g.each != nil {
		g.each()
	}
	if len(g.records) == 0 {
		return nil, errEnd
	}
	rec, rest := cut(g.records[0], limit)
	if g.records = g.records[1:]; rest != nil {
		g.records = append([]arrow.Record{rest}, g.records...)
	}
	return rec, nil
}

// sortedTypes are columns to sort by, then such that only come along.
func sortedTypes() []arrow.Field {
	numbers := arrow.PrimitiveTypes.Int64
	texts := arrow.BinaryTypes.String
	return []arrow.Field{
		nullable("int", arrow.PrimitiveTypes.Int32), nullable("unsigned", arrow.PrimitiveTypes.Uint64),
		nullable("float", arrow.PrimitiveTypes.Float64), nullable("half", arrow.PrimitiveTypes.Float32),
		nullable("text", texts), nullable("bytes", arrow.BinaryTypes.LargeBinary),
		nullable("bool", arrow.FixedWidthTypes.Boolean), nullable("time", arrow.FixedWidthTypes.Timestamp_us),
		nullable("decimal", &arrow.Decimal128Type{Precision: 20, Scale: 2}),
		nullable("fixed", &arrow.FixedSizeBinaryType{ByteWidth: 2}),
		nullable("list", arrow.ListOf(texts)), nullable("map", arrow.MapOf(texts, arrow.ListOf(numbers))),
		nullable("struct", arrow.StructOf(nullable("a", arrow.FixedWidthTypes.Boolean),
			nullable("b", arrow.ListOf(arrow.MapOf(numbers, numbers))))),
		nullable("triple", arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int16)),
		nullable("null", arrow.Null),
	}
}

const sortedBy = 10 // of sortedTypes

// appendAny appends some value, null among them, of which few differ.
func appendAny(t *rapid.T, b array.Builder, nulls bool) {
	n := rapid.IntRange(0, 5).Draw(t, "n")
	if nulls && n == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.NullBuilder:
		b.AppendNull()
	case *array.Int16Builder:
		b.Append(int16(n))
	case *array.Int32Builder:
		b.Append([]int32{math.MinInt32, -256, -1, 0, 255, 256}[n])
	case *array.Int64Builder:
		b.Append(int64(n - 3))
	case *array.Uint64Builder:
		b.Append([]uint64{0, 1, 255, 256, 1 << 63, math.MaxUint64}[n])
	case *array.Float64Builder:
		b.Append([]float64{math.NaN(), math.Inf(-1), -0.5, math.Copysign(0, -1), 0, math.Inf(1)}[n])
	case *array.Float32Builder:
		b.Append([]float32{-2, -1, 0, 1, float32(math.NaN()), 1e30}[n])
	case *array.StringBuilder:
		b.Append([]string{"", "a", "a\x00", "a\x00\x01b", "ab", "é"}[n])
	case *array.LargeStringBuilder:
		b.Append([]string{"", "a", "a\x00", "a\x00\x01b", "ab", "é"}[n])
	case *array.BinaryBuilder:
		b.Append([][]byte{{}, {0}, {0, 0}, {0, 1}, {0xff}, {0xff, 0}}[n])
	case *array.BooleanBuilder:
		b.Append(n > 2)
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n - 3))
	case *array.Decimal128Builder:
		b.Append(decimal128.New(int64(n-3), uint64(n)))
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte{byte(n), 255 - byte(n)})
	case *array.MapBuilder:
		b.Append(true)
		for range n {
			appendAny(t, b.KeyBuilder(), false)
			appendAny(t, b.ItemBuilder(), true)
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range 3 {
			appendAny(t, b.ValueBuilder(), true)
		}
	case *array.ListBuilder:
		b.Append(true)
		for range n {
			appendAny(t, b.ValueBuilder(), true)
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendAny(t, b.FieldBuilder(i), true)
		}
	default:
		t.Fatalf("no %T", b)
	}
}

func anyRecord(t *rapid.T, fields []arrow.Field, rows int) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for range rows {
		for i, f := range b.Fields() {
			appendAny(t, f, fields[i].Type.ID() != arrow.FIXED_SIZE_LIST)
		}
	}
	return b.NewRecord()
}

// compareValues compares as users are told.
func compareValues(a arrow.Array, i, j int, descending bool) int {
	rank := func(row int) int {
		switch values := a.(type) {
		case *array.Float64:
			if values.IsValid(row) && math.IsNaN(values.Value(row)) {
				return 1
			}
		case *array.Float32:
			if values.IsValid(row) && values.Value(row) != values.Value(row) {
				return 1
			}
		}
		if a.IsNull(row) {
			return 2
		}
		return 0
	}
	if c := cmp.Compare(rank(i), rank(j)); c != 0 || rank(i) != 0 {
		return c
	}
	c := 0
	switch a := a.(type) {
	case *array.Int32:
		c = cmp.Compare(a.Value(i), a.Value(j))
	case *array.Uint64:
		c = cmp.Compare(a.Value(i), a.Value(j))
	case *array.Float64:
		c = cmp.Compare(a.Value(i), a.Value(j))
	case *array.Float32:
		c = cmp.Compare(a.Value(i), a.Value(j))
	case *array.String:
		c = strings.Compare(a.Value(i), a.Value(j))
	case *array.LargeBinary:
		c = bytes.Compare(a.Value(i), a.Value(j))
	case *array.Timestamp:
		c = cmp.Compare(a.Value(i), a.Value(j))
	case *array.Decimal128:
		c = a.Value(i).Cmp(a.Value(j))
	case *array.FixedSizeBinary:
		c = bytes.Compare(a.Value(i), a.Value(j))
	case *array.Boolean:
		number := map[bool]int{true: 1}
		c = number[a.Value(i)] - number[a.Value(j)]
	}
	if descending {
		return -c
	}
	return c
}

// drawKeys draws columns of the first n to sort by.
func drawKeys(t *rapid.T, n int) (by []sortKey) {
	for _, column := range rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}[:n]).Draw(t, "columns")[:rapid.IntRange(1,
		min(3, n)).Draw(t, "keys")] {
		by = append(by, sortKey{column, rapid.Bool().Draw(t, "descending")})
	}
	return by
}

// order is how rows are sorted, equal ones as they are.
func order(rec arrow.Record, by []sortKey) []int {
	rows := make([]int, rec.NumRows())
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(i, j int) int {
		for _, k := range by {
			if c := compareValues(rec.Column(k.column), i, j, k.descending); c != 0 {
				return c
			}
		}
		return 0
	})
	return rows
}

// Rows are sorted, equal ones keep their order, and none of what they hold is changed, whether they are merged from
// many files or from none.
func TestSorted(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rec := anyRecord(t, sortedTypes(), rapid.IntRange(0, 60).Draw(t, "rows"))
		src := &given{of: rec.Schema()}
		for from := int64(0); from < rec.NumRows(); {
			to := min(rec.NumRows(), from+rapid.Int64Range(1, 20).Draw(t, "of a record"))
			src.records = append(src.records, rec.NewSlice(from, to))
			from = to
		}
		by := drawKeys(t, sortedBy)
		s := newSorted(src, by, dir, nil)
		s.bounds = sortBounds{block: rapid.Int64Range(1, 20_000).Draw(t, "block"), record: 500, files: 2}
		s.block = s.newBlock()
		defer s.close()
		want := order(rec, by)
		for at := 0; ; {
			got, err := s.next(context.Background(), rapid.Int64Range(1, 10).Draw(t, "limit"))
			if errors.Is(err, errEnd) && at == len(want) {
				break
			}
			if err != nil {
				t.Fatalf("at row %d of %d: %v", at, len(want), err)
			}
			for row := range int(got.NumRows()) {
				for i, column := range rec.Columns() {
					if !equal(column, want[at], got.Column(i), row) {
						t.Fatalf("row %d, column %s: %s; want %s", at, rec.ColumnName(i), got.Column(i).ValueStr(row),
							column.ValueStr(want[at]))
					}
				}
				at++
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What is in memory is a block, or a record of each file, however many rows there are and however they differ in size.
func TestSortedMemory(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		nullable("x", arrow.PrimitiveTypes.Int64),
		nullable("text", arrow.BinaryTypes.String),
	}, nil)
	src := &given{of: schema}
	for i := range 400 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for row := range 100 {
			x := (i*100 + row) * 7919 % 40_000
			b.Field(0).(*array.Int64Builder).Append(int64(x))
			b.Field(1).(*array.StringBuilder).Append(strings.Repeat("x", 10+x/20)) // the last ones are the longest
		}
		src.records = append(src.records, b.NewRecord())
	}
	s := newSorted(src, []sortKey{{column: 0}}, t.TempDir(), nil)
	s.bounds = sortBounds{block: 1 << 20, record: 8 << 10, files: 8}
	s.block = s.newBlock()
	defer s.close()
	most, files := int64(0), 0
	src.each = func() { most, files = max(most, s.block.bytes), max(files, len(s.files)) }
	merging := int64(0)
	for at := int64(0); at < 40_000; {
		rec, err := s.next(t.Context(), batchRows)
		if err != nil {
			t.Fatal(err)
		}
		if x := rec.Column(0).(*array.Int64).Value(0); x != at {
			t.Fatalf("row %d is %d", at, x)
		}
		at += rec.NumRows()
		held := sizeOf(rec)
		for _, h := range s.rows.(*merge).heads {
			if _, file := h.rows.(spilled); file {
				held += sizeOf(h.rec)
			}
		}
		merging = max(merging, held)
	}
	if most > 1<<20+400<<10 {
		t.Errorf("a block had %d bytes", most)
	}
	if files < 8 || files > 2*8 {
		t.Errorf("there were up to %d files", files)
	}
	if most := int64(files+1) * 3 * 8 << 10; merging > most {
		t.Errorf("%d bytes of %d files were merged; want at most %d", merging, files, most)
	}
}

// Sorting needs room, and says where.
func TestSortedWithoutRoom(t *testing.T) {
	in := write(t, "a.csv", "x,y\n"+strings.Repeat("2,a\n1,b\n", 1000))
	s, err := openText(t.Context(), Options{InferRows: 10}, ptr(must(find(t.Context(), Options{
		Inputs: []string{in}, Store: newStore(t),
	}))))
	if err != nil {
		t.Fatal(err)
	}
	sorting := newSorted(s, []sortKey{{column: 0}}, t.TempDir()+"/gone", nil)
	sorting.bounds.block = 1
	defer sorting.close()
	if _, err := sorting.next(t.Context(), 10); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "make room there") {
		t.Errorf("error %v", err)
	}
}

func ptr[T any](v T) *T { return &v }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// --sort-by and --partition-by say which column cannot be taken, and why.
func TestArrangementErrors(t *testing.T) {
	in := parquetFile(t, `[{"x": 1, "l": [1], "f": 0.5}]`, nullable("x", arrow.PrimitiveTypes.Int64),
		nullable("l", arrow.ListOf(arrow.PrimitiveTypes.Int64)), nullable("f", arrow.PrimitiveTypes.Float64))
	for want, o := range map[string]Options{
		`--sort-by names "y", which is no column; there are x, l, f`: {SortBy: []string{"y"}},
		`--sort-by names "x:down", which is no column`:               {SortBy: []string{"x:down"}},
		`--sort-by names column l, which is list<`:                   {SortBy: []string{"x", "l"}},
		`--sort-by names column x twice`:                             {SortBy: []string{"x", "x:desc"}},
		`--partition-by names "y", which is no column`:               {PartitionBy: []string{"y"}},
		`--partition-by names column f, which is float64`:            {PartitionBy: []string{"f"}},
		`--partition-by names column x twice`:                        {PartitionBy: []string{"x", "x"}},
		`a.parquet is one file, and partitions are folders`:          {PartitionBy: []string{"x"}, Output: "a.parquet"},
		`--partition-by names all columns`: {
			Inputs: []string{write(t, "a.csv", "x\n1\n")}, PartitionBy: []string{"x"},
		},
		`a.csv row 2: column s is __HIVE_DEFAULT_PARTITION__, which stands for null`: {
			Inputs: []string{write(t, "a.csv", "s,y\na,1\nb,1\n__HIVE_DEFAULT_PARTITION__,2\n")}, PartitionBy: []string{"s"},
		},
		`which makes a folder's name longer than 255 bytes`: {
			Inputs: []string{write(t, "a.csv", "s,y\na,1\n"+strings.Repeat("é", 50)+",2\n")}, PartitionBy: []string{"s"},
		},
		`begins partition 10,001, and there are at most 10,000`: {
			Inputs: []string{write(t, "a.csv", manyRows(12_000))}, PartitionBy: []string{"x"},
		},
	} {
		if o.Inputs == nil {
			o.Inputs = []string{in}
		}
		fails(t, o, want)
	}
}
