package parquet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestLargeDictionaries decodes columns whose dictionaries are looked up ahead, in windows of many sizes.
func TestLargeDictionaries(t *testing.T) {
	const rows = 34_000
	ids := arrow.PrimitiveTypes.Int64
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "optional", Type: ids, Nullable: true},
		{Name: "list", Type: arrow.ListOf(ids), Nullable: true},
	}, nil)
	columns := make([]arrow.Column, schema.NumFields())
	r := rand.New(rand.NewPCG(1, 9))
	for i, f := range schema.Fields() {
		// More entries than make a dictionary a large one, and in lists more values than are looked up at once.
		g := &generator{Rand: r, nulls: 0.001, spread: 1 << 30, length: 17}
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		for range rows {
			g.fill(b, f.Nullable)
		}
		columns[i] = *arrow.NewColumn(f, arrow.NewChunked(f.Type, []arrow.Array{b.NewArray()}))
	}
	table := array.NewTable(schema, columns, rows)
	for _, c := range []struct {
		page   int64
		window int
		limit  int64
		ahead  bool
	}{
		{20_000, 777, testMemory, true},
		{4 << 20, 5000, testMemory, true},
		{4 << 20, 5000, 5 << 20, false}, // enough for all but looking ahead
	} {
		data := writeTable(t, table, rows, parquet.WithDictionaryPageSizeLimit(8<<20), parquet.WithDataPageSize(c.page))
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(sourcesOf(f), c.limit)
		got, err := decodeAll(d, f, data, c.window, 0)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		for i, s := range d.sources {
			compare(t, fmt.Sprintf("%s, %+v", s.GetName(), c), got[i],
				arrowRows(table.Column(i).Data(), s.GetType().GetKind()))
		}
		if lists := d.columns[1].values.(*fixed[uint64]); (lists.ahead.buffer != nil) != c.ahead {
			t.Errorf("%+v: %d values were looked up ahead", c, len(lists.ahead.buffer))
		}
	}
}

// FuzzAhead compares looking up ahead with looking up what is wanted: the same values, window after window, and an
// error at the same read.
func FuzzAhead(f *testing.F) {
	f.Add([]byte{3, 0xaa, 8, 1, 0x11, 0xff, 40, 1, 0xff, 0x80}, uint8(1), uint8(3), uint8(7), uint8(1))
	f.Add([]byte("\x21some bytes that are indices, and some more of them\x90\x01\x05and the end"), uint8(5), uint8(3),
		uint8(30), uint8(40))
	f.Fuzz(func(t *testing.T, src []byte, width, piece, window, size uint8) {
		dict := make([]uint64, int(size)+1)
		for i := range dict {
			dict[i] = uint64(i) * 0x9E3779B97F4A7C15
		}
		data := append([]byte{width % 33}, src...)
		var both [2]*fixed[uint64]
		for i := range both {
			both[i] = &fixed[uint64]{
				mem: decode.NewAllowance(1 << 30), kind: pb.Kind_INT64, width: 8, bits: true,
				dict: dict,
			}
			if err := both[i].page(data, encodingDictionary, 1<<20); err != nil {
				t.Skip()
			}
		}
		both[0].ahead.begin(true)
		for range 200 {
			var seen [2]vector.Vector
			var errs [2]error
			rows := 1 + int(window)
			for i, v := range both {
				errs[i] = readPieces(v, rows, 1+int(piece))
				if errs[i] == nil {
					v.into(&seen[i], rows)
				}
			}
			if (errs[0] == nil) != (errs[1] == nil) {
				t.Fatalf("ahead: %v; else: %v", errs[0], errs[1])
			}
			if errs[0] != nil {
				return
			}
			if !slices.Equal(seen[0].I64, seen[1].I64) {
				t.Fatalf("%v, want %v", seen[0].I64, seen[1].I64)
			}
		}
	})
}

// readPieces reads a window.
func readPieces(v values, rows, piece int) error {
	for at := 0; at < rows; at += piece {
		n := min(piece, rows-at)
		if err := v.reserve(at+n, at+n); err != nil {
			return err
		}
		if err := v.read(at, n); err != nil {
			return err
		}
	}
	return nil
}
