package client

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
)

// TestOffsetsThatColumnsShare makes batches of three records, of which each column has the offsets of the one before in
// all, in some or in none.
func TestOffsetsThatColumnsShare(t *testing.T) {
	const columns, records, rows, padding = 4, 3, 5, 2
	l := &layout{}
	for range columns {
		l.columns = append(l.columns, column{name: "ids", role: roleSparse, elem: arrow.INT64})
	}
	buf := newBuffers(l, records*rows+padding, nil)
	for cases := range 1 << (records * (columns - 1)) {
		buf.reset()
		shared := cases
		want, alike := make([][]int32, columns), make([]bool, columns)
		for i := range want {
			want[i], alike[i] = []int32{0}, i > 0
		}
		for k := range records {
			w := &wireRecord{rows: rows, columns: make([]wireColumn, columns)}
			for i := range w.columns {
				c := &w.columns[i]
				if share := i > 0 && shared&1 == 1; share {
					c.offsets = w.columns[i-1].offsets
				} else {
					for row := range rows + 1 {
						c.offsets = append(c.offsets, int32(7+row*(1+(i+k)%3)))
					}
					alike[i] = false
				}
				if i > 0 {
					shared >>= 1
				}
				c.i64 = make([]int64, c.offsets[rows])
				for row := 1; row <= rows; row++ {
					want[i] = append(want[i], want[i][len(want[i])-1]+c.offsets[row]-c.offsets[row-1])
				}
			}
			for _, cut := range [][2]int{{0, 2}, {2, rows}} {
				if err := buf.append(w, cut[0], cut[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		buf.pad(padding)
		for i := range want {
			end := want[i][len(want[i])-1]
			want[i] = append(want[i], end, end)
			got := buf.columns[i].offsets
			if !slices.Equal(got, want[i]) || len(buf.columns[i].i64) != int(end) {
				t.Fatalf("case %b: column %d has offsets %v and %d values; expected %v",
					cases, i, got, len(buf.columns[i].i64), want[i])
			}
			if i > 0 && alike[i] != (unsafe.SliceData(got) == unsafe.SliceData(buf.columns[i-1].offsets)) {
				t.Fatalf("case %b: column %d shares memory with the one before: %v; expected %v",
					cases, i, !alike[i], alike[i])
			}
		}
	}
}

// TestPaddingHasNoProvenance has padding come from nowhere: -1 is no file, no row of one and no part of a row.
func TestPaddingHasNoProvenance(t *testing.T) {
	buf := newBuffers(&layout{columns: []column{
		{name: "_file", role: roleFile, elem: arrow.INT32, width: 1},
		{name: "_row", role: roleRow, elem: arrow.INT64, width: 1},
		{name: "_part", role: rolePart, elem: arrow.INT32, width: 1},
	}}, 2, nil)
	buf.reset()
	buf.pad(2)
	b := Batch{buffers: buf}
	b.expose()
	if !slices.Equal(b.Files, []int32{-1, -1}) || !slices.Equal(b.RowIDs, []int64{-1, -1}) ||
		!slices.Equal(b.Parts, []int32{-1, -1}) {
		t.Errorf("files %v, rows %v, parts %v", b.Files, b.RowIDs, b.Parts)
	}
}
