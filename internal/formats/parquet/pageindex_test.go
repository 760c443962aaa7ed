package parquet_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-ml/penstock/internal/formats/parquet"
)

// TestPageIndex reads what pyarrow writes.
func TestPageIndex(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(pyarrowFiles(t), "index.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	f := load(t, data)
	c := &f.RowGroups[0].Chunks[0]
	at := func(from, length int64) []byte { return data[from : from+length] }
	pages, err := f.Pages(0, 0, at(c.OffsetIndex().Offset, c.OffsetIndex().Length))
	if err != nil || len(pages) != 1 || pages[0].FirstRow != 0 || pages[0].Offset < c.Offset {
		t.Fatalf("pages %v, %v", pages, err)
	}
	stats, err := f.PageStats(0, 0, pages, at(c.ColumnIndex().Offset, c.ColumnIndex().Length))
	if err != nil || len(stats) != 1 || stats[0].Nulls != 0 || !bytes.Equal(stats[0].Min, []byte{0, 0, 0, 0}) ||
		!bytes.Equal(stats[0].Max, []byte{99, 0, 0, 0}) {
		t.Errorf("statistics %v, %v", stats, err)
	}
}

func FuzzPageIndex(f *testing.F) {
	file, err := parquet.Read(serialised(oneColumn(f, 100)))
	if err != nil {
		f.Fatal(err)
	}
	group := &file.RowGroups[0]
	// Three pages, and a ColumnIndex of three.
	f.Add([]byte{
		0x19, 0x3c, 0x16, 8, 0x15, 2, 0x16, 0, 0, 0x16, 10, 0x15, 2, 0x16, 2, 0, 0x16, 12, 0x15, 2, 0x16,
		4, 0, 0,
	},
		[]byte{
			0x19, 0x31, 2, 2, 1, 0x19, 0x38, 1, 'a', 1, 'b', 0, 0x19, 0x38, 1, 'c', 1, 'd', 0, 0x15, 0, 0x19,
			0x36, 0, 2, 4, 0,
		})
	f.Add([]byte{0x19, 0xfc, 0xff, 0xff, 0xff, 0x0f}, []byte{0x19, 0xf8, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, offsets, columns []byte) {
		for leaf := range group.Chunks {
			c := &group.Chunks[leaf]
			pages, err := file.Pages(0, leaf, offsets)
			if err != nil {
				continue
			}
			total := int64(0)
			for i, p := range pages {
				n := parquet.RowsOf(pages, i, group.Rows)
				if total += n; n < 1 || p.Offset < c.Offset || p.Offset >= c.Offset+c.Length {
					t.Fatalf("page %d of %v: %d rows", i, pages, n)
				}
				if got := parquet.PageAt(pages, p.FirstRow, group.Rows); got != i {
					t.Fatalf("row %d lies in page %d, not %d", p.FirstRow, got, i)
				}
			}
			if total != group.Rows || parquet.PageAt(pages, group.Rows, group.Rows) != len(pages) {
				t.Fatalf("%d rows of %d", total, group.Rows)
			}
			stats, err := file.PageStats(0, leaf, pages, columns)
			if err == nil && len(stats) != len(pages) {
				t.Fatalf("%d statistics of %d pages", len(stats), len(pages))
			}
		}
	})
}
