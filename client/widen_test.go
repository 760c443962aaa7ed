package client

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/wire"
)

// TestNarrowRecords puts records together whose int64 values have other widths each, cut anywhere, and expects those
// that were sent.
func TestNarrowRecords(t *testing.T) {
	l := testLayout(t)
	var rows []fake.Row
	// ids of 1, 2, 3, 4 and 8 bytes
	for _, first := range []fake.Row{{}, {K: 300}, {Window: 5}, {Shard: 3}, {Shard: 300}} {
		for i := range 50 {
			row := first
			row.K += i
			rows = append(rows, row)
		}
	}
	buf := newBuffers(l, len(rows), nil)
	widths := map[int]bool{}
	for lo := 0; lo < len(rows); lo += 50 {
		b := flattened(t, fake.Rows(rows[lo:lo+50]))
		fake.Narrow(b, l.schema)
		w, err := l.bind(b)
		if err != nil {
			t.Fatal(err)
		}
		if lo%100 == 0 { // as if of a large batch
			w.bytes = pastCaches
		}
		for i := range w.columns {
			widths[w.columns[i].each] = true
		}
		for _, cut := range [][2]int{{0, 3}, {3, 3}, {3, 4}, {4, 50}} {
			if err := buf.append(w, cut[0], cut[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(widths) != 5 {
		t.Errorf("the records' widths were %v", widths)
	}
	b := &Batch{Rows: len(rows), buffers: buf, spares: new(spares)}
	b.expose()
	if got, want := b.Record(), fake.Rows(rows); !array.RecordEqual(got, want) {
		t.Errorf("record %v; expected %v", got, want)
	}
}

// TestWidths binds five int64 values in buffers of each length up to theirs.
func TestWidths(t *testing.T) {
	l, err := parseLayout(arrow.NewSchema([]arrow.Field{fake.Schema().Field(4)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5*8 + 3 {
		b := &wire.Batch{Rows: 5, Nodes: []wire.Node{{Length: 5}}, Buffers: [][]byte{nil, make([]byte, n)}}
		_, err := l.bind(b)
		switch fits := n == 5 || n == 10 || n == 15 || n == 20 || n >= 40; {
		case fits && err != nil:
			t.Errorf("%d bytes: %v", n, err)
		case !fits &&
			(err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`column "label": %d bytes for 5 values`, n))):
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// It is the array's values that count, not those that its lists have.
	if l, err = parseLayout(arrow.NewSchema([]arrow.Field{fake.Schema().Field(1)}, nil)); err != nil {
		t.Fatal(err)
	}
	b := &wire.Batch{
		Rows: 1, Nodes: []wire.Node{{Length: 1}, {Length: 6}},
		Buffers: [][]byte{nil, arrow.Int32Traits.CastToBytes([]int32{0, 3}), nil, make([]byte, 24)},
	}
	if w, err := l.bind(b); err != nil || w.columns[0].each != 4 {
		t.Errorf("6 values in 24 bytes, of which a list has 3: %v", err)
	}
}

// FuzzWiden compares all loops with each other, wherever dst begins, and sees that they write nothing else.
func FuzzWiden(f *testing.F) {
	for n := range 40 {
		data := make([]byte, 4*n+3)
		for i := range data {
			data[i] = byte(255 - 7*i)
		}
		f.Add(data, n)
	}
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		data, at = append([]byte(nil), data...), at&15 // aligned
		checkWiden(t, data, at)
		checkWiden(t, arrow.Uint16Traits.CastFromBytes(data), at)
		checkWiden(t, arrow.Uint32Traits.CastFromBytes(data), at)
		checkWiden(t, uint24s(data), at)
		checkPut(t, data, at)
		checkPut(t, arrow.Int32Traits.CastFromBytes(data), at)
		checkPut(t, arrow.Int64Traits.CastFromBytes(data), at)
	})
}

func checkWiden[T narrow](t *testing.T, src []T, at int) {
	t.Helper()
	want := make([]int64, len(src))
	size := int(unsafe.Sizeof(*new(T)))
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(src))), len(src)*size)
	for i := range src {
		var wide [8]byte
		copy(wide[:], data[i*size:][:size])
		want[i] = int64(binary.LittleEndian.Uint64(wide[:]))
	}
	checkWritten(t, want, at, widenPlain, src)
	for _, past := range []bool{false, true} {
		checkWritten(t, want, at, func(dst []int64, src []T) { widen(dst, src, past) }, src)
	}
}

func checkPut[T wire.Value](t *testing.T, src []T, at int) {
	t.Helper()
	for _, past := range []bool{false, true} {
		checkWritten(t, src, at, func(dst, src []T) { put(dst, src, past) }, src)
	}
}

// checkWritten expects a loop to write want, from value at of a line on, and nothing else.
func checkWritten[D wire.Value, S any](t *testing.T, want []D, at int, loop func([]D, []S), src []S) {
	t.Helper()
	dst, expected := wire.Aligned[D](at+len(want)+16), wire.Aligned[D](at+len(want)+16)
	copy(expected[at:], want)
	loop(dst[at:][:len(want)], src)
	if !slices.Equal(dst, expected) {
		t.Fatalf("%T: %d values at %d: got %v, expected %v", src, len(want), at, dst, expected)
	}
}

// BenchmarkWiden widens values in the caches, with and without SIMD, in nanoseconds a value.
func BenchmarkWiden(b *testing.B) {
	benchWiden[uint8](b)
	benchWiden[uint16](b)
	benchWiden[uint24](b)
	benchWiden[uint32](b)
}

func benchWiden[T narrow](b *testing.B) {
	src, dst := make([]T, 4096), make([]int64, 4096)
	for name, loop := range map[string]func([]int64, []T){
		"simd": func(dst []int64, src []T) { widen(dst, src, false) }, "plain": widenPlain[T],
	} {
		b.Run(fmt.Sprintf("%T/%s", src[0], name), func(b *testing.B) {
			for b.Loop() {
				loop(dst, src)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(src)), "ns/element")
		})
	}
}
