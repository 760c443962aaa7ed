package client

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/wire"
)

// TestNarrowRecords puts records together whose int64 values have other widths each, cut anywhere, and expects those that were sent.
func TestNarrowRecords(t *testing.T) {
	l := testLayout(t)
	var rows []fake.Row
	for _, first := range []fake.Row{{}, {K: 300}, {Shard: 3}, {Shard: 300}} { // ids of 1, 2, 4 and 8 bytes
		for i := range 50 {
			row := first
			row.K += i
			rows = append(rows, row)
		}
	}
	buf := newBuffers(l, len(rows))
	widths := map[int]bool{}
	for lo := 0; lo < len(rows); lo += 50 {
		b := flattened(t, fake.Rows(rows[lo:lo+50]))
		fake.Narrow(b, l.schema)
		w, err := l.bind(b)
		if err != nil {
			t.Fatal(err)
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
	if len(widths) != 4 {
		t.Errorf("the records' widths were %v", widths)
	}
	b := &Batch{Rows: len(rows), buffers: buf, session: &Session{}}
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
		switch fits := n == 5 || n == 10 || n == 20 || n >= 40; {
		case fits && err != nil:
			t.Errorf("%d bytes: %v", n, err)
		case !fits && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`column "label": %d bytes for 5 values`, n))):
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

// TestWiden compares with values converted one by one.
func TestWiden(t *testing.T) {
	for n := range 40 {
		checkWiden(t, n, uint8(math.MaxUint8))
		checkWiden(t, n, uint16(math.MaxUint16))
		checkWiden(t, n, uint32(math.MaxUint32))
	}
}

func checkWiden[T uint8 | uint16 | uint32](t *testing.T, n int, largest T) {
	src, dst := make([]T, n+1), make([]int64, n+2)
	for i := range src {
		src[i] = largest - T(i*i)
	}
	dst[n] = -7
	widen(dst[:n], src[1:])
	for i, x := range src[1:] {
		if dst[i] != int64(x) {
			t.Fatalf("%T, value %d of %d: %d, not %d", x, i, n, dst[i], x)
		}
	}
	if dst[n] != -7 {
		t.Fatalf("%T: more than %d values were written", largest, n)
	}
}
