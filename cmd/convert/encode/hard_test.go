package encode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/parquet-go/parquet-go"
)

// TestHalfBounds: the smallest halves are bounds like others, NaN are none, and a zero stands for both.
func TestHalfBounds(t *testing.T) {
	for _, tt := range []struct{ values, want []uint16 }{
		{[]uint16{0x0001, 0x03ff, 0x7e00}, []uint16{0x0001, 0x03ff}},
		{[]uint16{0x8001, 0x83ff, 0xfe00}, []uint16{0x83ff, 0x8001}},
		{[]uint16{0x8000, 0x0002}, []uint16{0x8000, 0x0002}},
		{[]uint16{0x0000, 0x8002}, []uint16{0x8002, 0x0000}},
		{[]uint16{0x0000}, []uint16{0x8000, 0x0000}},
		{[]uint16{0x7c00, 0xfc00}, []uint16{0xfc00, 0x7c00}},
		{[]uint16{0x7c01, 0xfe00}, nil},
	} {
		b := halfBounds(arrow.Uint16Traits.CastToBytes(tt.values))
		if b.known != (tt.want != nil) {
			t.Errorf("%x: known: %v", tt.values, b.known)
			continue
		}
		if got := append(b.min, b.max...); !bytes.Equal(got, arrow.Uint16Traits.CastToBytes(tt.want)) {
			t.Errorf("%x: got %x, want %x", tt.values, got, tt.want)
		}
	}
}

// TestHash: whole numbers begin all over a dictionary's table, as floats as well.
func TestHash(t *testing.T) {
	const slots = 1 << 12
	for name, of := range map[string]func(i int) []byte{
		"floats":  func(i int) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(i))) },
		"singles": func(i int) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(i))) },
		"ints":    func(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)) },
		"shifted": func(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)<<52) },
	} {
		begin := map[uint64]bool{}
		for i := range 256 {
			begin[hash(of(i))%slots] = true
		}
		if len(begin) < 128 {
			t.Errorf("%s: 256 values begin at %d places", name, len(begin))
		}
	}
}

// TestUnequalRows: pages have about as many bytes as they should, though the first rows are much longer than others, and
// though lists have nothing but nulls.
func TestUnequalRows(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "nulls", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	for i := range 5000 {
		b.Field(0).(*array.StringBuilder).Append(strings.Repeat("x", max(0, 1000-i)))
		list := b.Field(1).(*array.ListBuilder)
		list.Append(true)
		for range max(0, 1000-i) {
			list.ValueBuilder().AppendNull()
		}
	}
	const size = 10_000
	data := written(t, s, [][]arrow.Record{{b.NewRecord()}}, cuts{rows: 5000, bytes: size, few: 1000})
	checkIndexes(t, data)
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.RowGroups()[0].ColumnChunks() {
		for pages := c.Pages(); ; {
			p, err := pages.ReadPage()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.NumValues() > size || p.Size() > 2*size {
				t.Errorf("a page has %d values, %d bytes", p.NumValues(), p.Size())
			}
		}
	}
}

// TestUnbounded: bytes that are the highest there are have no bound that could be cut, and then nothing is said of any.
func TestUnbounded(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.BinaryTypes.Binary}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	b.Field(0).(*array.BinaryBuilder).Append([]byte("low"))
	b.Field(0).(*array.BinaryBuilder).Append(bytes.Repeat([]byte{0xff}, 1<<16))
	data := written(t, s, [][]arrow.Record{{b.NewRecord()}}, cuts{rows: 1, bytes: 1 << 20})
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if c := f.Metadata().RowGroups[0].Columns[0]; c.MetaData.Statistics.MaxValue != nil || c.ColumnIndexLength > 0 {
		t.Errorf("bounds %q of a chunk, an index of %d bytes", c.MetaData.Statistics.MaxValue, c.ColumnIndexLength)
	}
}

// TestTooManyNulls: lists of nulls take no memory in a record, and are an error before they take any in a page.
func TestTooManyNulls(t *testing.T) {
	typ := arrow.ListOf(arrow.Null)
	nulls := array.NewData(arrow.Null, mostLevels+1, []*memory.Buffer{nil}, nil, mostLevels+1, 0)
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, mostLevels + 1}))
	lists := array.NewData(typ, 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{nulls}, 0, 0)
	e, err := New(arrow.NewSchema([]arrow.Field{{Name: "x", Type: typ}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Begin(io.Discard); err != nil {
		t.Fatal(err)
	}
	e.RowGroup(1)
	if err := e.Column(0, []arrow.Array{array.MakeFromData(lists)}); err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("got %v", err)
	}
}

// TestRefusedTypes: Parquet counts no seconds, so that these would be read as something else.
func TestRefusedTypes(t *testing.T) {
	for _, typ := range []arrow.DataType{
		arrow.FixedWidthTypes.Timestamp_s, arrow.ListOf(arrow.FixedWidthTypes.Time32s), arrow.FixedWidthTypes.Date64,
	} {
		s := arrow.NewSchema([]arrow.Field{{Name: "at", Type: typ}}, nil)
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), "column at: ") {
			t.Errorf("%v: got %v", typ, err)
		}
	}
}
