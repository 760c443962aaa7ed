package convert_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/cmd/convert"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// tables makes tables of a map and a struct.
type tables struct {
	*rand.Rand
	nested        bool // the map is in a struct
	loose         bool // what is null may have values, as only Arrow has it
	key, item, of arrow.DataType
}

// keysOf are the keys that maps of a type have, as specs write them, the first few times more often.
func keysOf(t arrow.DataType) []string {
	if t.ID() == arrow.STRING || t.ID() == arrow.BINARY {
		return []string{"1", "a.b", "key", "value", "b.key", "", "é", "\xff"}
	}
	if t.ID() == arrow.UINT32 {
		return []string{"1", "2", "4294967295", "7"}
	}
	return []string{"1", "-1", "2", "127", "-128", "0"}
}

func newTables(r *rand.Rand, loose bool) tables {
	s := filetest.Schema(r)
	one := func(ok func(arrow.DataType) bool) arrow.DataType {
		for {
			if t := s.Field(r.IntN(len(s.Fields()))).Type; ok(t) {
				return t
			}
		}
	}
	keys := []arrow.DataType{
		arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint32,
		arrow.FixedWidthTypes.Date32, arrow.BinaryTypes.Binary,
	}
	return tables{
		Rand: r, nested: r.IntN(3) == 0, loose: loose, key: keys[r.IntN(len(keys))],
		item: one(func(arrow.DataType) bool { return true }),
		of: one(func(t arrow.DataType) bool {
			return t.ID() == arrow.STRUCT || t.ID() == arrow.LIST && t.(*arrow.ListType).Elem().ID() == arrow.STRUCT
		}),
	}
}

func (t *tables) schema() *arrow.Schema {
	var m arrow.DataType = arrow.MapOf(t.key, t.item)
	name := "m"
	if t.nested {
		name, m = "s", arrow.StructOf(arrow.Field{Name: "m", Type: m, Nullable: true})
	}
	return arrow.NewSchema([]arrow.Field{
		{Name: name, Type: m, Nullable: true}, {Name: "t", Type: t.of, Nullable: true},
	}, nil)
}

// valid are bits of which some are not set.
func (t *tables) valid(n int) *memory.Buffer {
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	for i := range n {
		bitutil.SetBitTo(bits, i, t.IntN(4) > 0)
	}
	return memory.NewBufferBytes(bits)
}

func (t *tables) record(n int) arrow.Record {
	valid, around := t.valid(n), t.valid(n)
	offsets, keys := []int32{0}, array.NewBuilder(memory.DefaultAllocator, t.key)
	pool := keysOf(t.key)
	for i := range n {
		is := bitutil.BitIsSet(valid.Bytes(), i) && (!t.nested || bitutil.BitIsSet(around.Bytes(), i))
		for range t.IntN(5) {
			if is || t.loose {
				appendKey(keys, pool[min(t.IntN(len(pool)), t.IntN(len(pool)))])
			}
		}
		offsets = append(offsets, int32(keys.Len()))
	}
	entries := int(offsets[n])
	values := filetest.Records(t.Rand, arrow.NewSchema([]arrow.Field{{Type: t.item, Nullable: true}}, nil), entries)[0]
	mt := arrow.MapOf(t.key, t.item)
	both := array.NewData(mt.Elem(), entries, []*memory.Buffer{nil},
		[]arrow.ArrayData{keys.NewArray().Data(), values.Column(0).Data()}, 0, 0)
	m := array.NewData(mt, n, []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))},
		[]arrow.ArrayData{both}, array.UnknownNullCount, 0)
	s := t.schema()
	if t.nested {
		m = array.NewData(s.Field(0).Type, n, []*memory.Buffer{around}, []arrow.ArrayData{m}, array.UnknownNullCount, 0)
	}
	others := filetest.Records(t.Rand, arrow.NewSchema(s.Fields()[1:], nil), n)[0]
	return array.NewRecord(s, []arrow.Array{array.MakeFromData(m), others.Column(0)}, int64(n))
}

func appendKey(b array.Builder, key string) {
	i, _ := strconv.ParseInt(key, 10, 64) // of texts none is needed
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(i))
	case *array.Int32Builder:
		b.Append(int32(i))
	case *array.Int64Builder:
		b.Append(i)
	case *array.Uint32Builder:
		b.Append(uint32(i))
	case *array.Date32Builder:
		b.Append(arrow.Date32(i))
	case *array.BinaryBuilder:
		b.Append([]byte(key))
	}
}

// TestFlattenedReadsTheSame: whatever maps and structs hold, and whichever keys become columns, specs read both layouts
// alike, row for row; and convert's own comparison finds no difference.
func TestFlattenedReadsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		suffix := rapid.SampledFrom([]string{"parquet", "arrow"}).Draw(rt, "format")
		tables := newTables(r, suffix == "arrow")
		dir := t.TempDir()
		var inputs []string
		var before [][]byte
		for i := range 1 + r.IntN(2) {
			records := []arrow.Record{tables.record(1 + r.IntN(40)), tables.record(r.IntN(40))}
			if suffix == "arrow" {
				before = append(before, filetest.Arrow(t, tables.schema(), records))
			} else {
				before = append(before, filetest.Parquet(t, tables.schema(), records))
			}
			inputs = append(inputs, filepath.Join(dir, fmt.Sprintf("%d.%s", i, suffix)))
			if err := os.WriteFile(inputs[i], before[i], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		name := map[bool]string{false: "m", true: "s.m"}[tables.nested]
		o := convert.Options{
			Inputs: inputs, Output: filepath.Join(dir, "out"), Verify: true, RowGroupRows: 1 + r.Int64N(50),
			FileRows:  30 + r.Int64N(60),
			Flatten:   []convert.Flattening{{Columns: []string{name}}, {Columns: []string{"t"}}},
			RestBelow: rapid.SampledFrom([]float64{0, 0.2, 0.7}).Draw(rt, "rest below"),
		}
		if rapid.Bool().Draw(rt, "named") {
			o.Flatten[0].Keys, o.Flatten[0].Listed = keysOf(tables.key)[:1+r.IntN(4)], true
		}
		result, err := convert.Run(t.Context(), o)
		schema := formattest.Schema(t, before[0])
		if unsupported(schema, name, "t") {
			if err == nil || !strings.Contains(err.Error(), "--flatten") {
				rt.Fatalf("what cannot be read is flattened: %v", err)
			}
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		var after [][]byte
		for _, file := range result.Files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			after = append(after, data)
		}
		sameRows(rt, t, before, after, namesOf(schema, name, keysOf(tables.key)))
	})
}

// unsupported reports whether one of the columns cannot be flattened.
func unsupported(s spec.Schema, paths ...string) bool {
	for _, c := range s.Columns {
		for _, path := range paths {
			if c.Unsupported != "" && (spec.ColumnName(c.Path, nil) == path || c.Path[0] == path) {
				return true
			}
		}
	}
	return false
}

// namesOf are the features of the keys of a map, and of the struct.
func namesOf(s spec.Schema, name string, keys []string) (names []string) {
	for _, c := range s.Columns {
		switch {
		case c.Path[0] == "t":
			names = append(names, c.Name)
		case c.Key != pb.Kind_KIND_UNSPECIFIED && spec.ColumnName(c.Path, nil) == name:
			for _, key := range append(keys, "77") {
				names = append(names, c.Feature(key))
			}
		}
	}
	return names
}

// sameRows reads features of two layouts.
func sameRows(rt *rapid.T, t *testing.T, before, after [][]byte, names []string) {
	in := spec.NamesOf(formattest.Schema(t, before[0]))
	out := spec.NamesOf(formattest.Schema(t, after[0]))
	for _, name := range names {
		x, errX := in.Source(name)
		y, errY := out.Source(name)
		if errX != nil || errY != nil {
			if errX == nil || errY == nil {
				rt.Fatalf("%s: %v before, %v after", name, errX, errY)
			}
			continue
		}
		if x.Key == nil && x.GetPath()[0] != "t" {
			continue // all keys of the map, or all its values
		}
		if !reflect.DeepEqual(x.GetType(), y.GetType()) || x.GetMeaning() != y.GetMeaning() {
			rt.Fatalf("%s is %v before, and %v after", name, x, y)
		}
		want, got := rowsOf(t, before, x), rowsOf(t, after, y)
		if !slices.EqualFunc(want, got, func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
			rt.Fatalf("%s: %v before\n%v after", name, want, got)
		}
	}
}

func rowsOf(t *testing.T, files [][]byte, s *pb.Source) (values []any) {
	for _, data := range files {
		for _, row := range formattest.Rows(t, data, s) {
			values = append(values, row[0])
		}
	}
	return values
}
