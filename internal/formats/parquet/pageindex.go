package parquet

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/penstock-ml/penstock/internal/formats/parquet/crypt"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
	"github.com/penstock-ml/penstock/internal/storage"
)

// maxIndex bounds the bytes of a chunk's page index that is read.
const maxIndex = 2 << 20

// Page is a data page of a column chunk, as the chunk's page index has it.
type Page struct {
	Offset   int64 // of its header
	FirstRow int64 // of its row group; pages of an index begin with a row
}

// OffsetIndex is where the chunk's pages are listed; of length 0 if nowhere.
func (c *Chunk) OffsetIndex() storage.Range { return indexRange(c.offsetIndex, c.offsetIndexLength) }

// ColumnIndex is where the pages' statistics are; of length 0 if nowhere.
func (c *Chunk) ColumnIndex() storage.Range { return indexRange(c.columnIndex, c.columnIndexLength) }

func indexRange(offset int64, length int32) storage.Range {
	if offset <= 0 || length <= 0 || length > maxIndex {
		return storage.Range{}
	}
	return storage.Range{Offset: offset, Length: int64(length)}
}

// forgetIndexes leaves out page indexes that do not lie before limit.
func (c *Chunk) forgetIndexes(limit int64) {
	if r := c.OffsetIndex(); r.Offset > limit-r.Length {
		c.offsetIndexLength = 0
	}
	if r := c.ColumnIndex(); r.Offset > limit-r.Length {
		c.columnIndexLength = 0
	}
}

// Pages parses a chunk's OffsetIndex.
func (f *Footer) Pages(rg, leaf int, data []byte) ([]Page, error) {
	c, rows := f.ChunkOf(rg, leaf), f.RowGroups[rg].Rows
	data, err := openIndex(c, crypt.OffsetIndex, data)
	if err != nil {
		return nil, err
	}
	list := pageList{from: c.Offset, to: c.Offset + c.Length, rows: rows, end: c.Offset}
	r := thrift.NewReader(data)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		if f != 1<<4|thrift.List {
			r.Skip(f)
			continue
		}
		for range r.ListOf(thrift.Struct) {
			if err := list.add(readPage(r)); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case r.Err() != nil:
		return nil, r.Err()
	case len(list.pages) == 0:
		return nil, errors.New("it lists no pages")
	}
	return list.pages, nil
}

// pageList is what an OffsetIndex has so far of a chunk of so many rows.
type pageList struct {
	from, to int64 // of the chunk's bytes
	rows     int64
	pages    []Page
	end      int64 // of the last page, as the index has it
}

func (l *pageList) add(p Page, size int64) error {
	n := len(l.pages)
	last := Page{Offset: l.from - 1, FirstRow: -1}
	if n > 0 {
		last = l.pages[n-1]
	}
	switch {
	case n == 0 && p.FirstRow != 0:
		return errors.New("its first page does not begin with the first row")
	case p.Offset <= last.Offset || p.FirstRow <= last.FirstRow || p.Offset >= l.to || p.FirstRow >= l.rows:
		return fmt.Errorf("page %d at byte %d, row %d is out of order", n, p.Offset, p.FirstRow)
	case p.Offset < l.end:
		return fmt.Errorf("page %d begins at byte %d, where the one before it lies up to byte %d", n, p.Offset, l.end)
	case size < 0 || size > l.to-p.Offset:
		return fmt.Errorf("page %d at byte %d has %d bytes, but its column chunk ends at byte %d",
			n, p.Offset, size, l.to)
	}
	l.pages, l.end = append(l.pages, p), p.Offset+size
	return nil
}

// readPage reads a PageLocation, with how many bytes it says that the page has. Whatever that is, pages end where the
// next ones begin.
func readPage(r *thrift.Reader) (p Page, size int64) {
	p.FirstRow = -1
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I64:
			p.Offset = r.Int64()
		case 2<<4 | thrift.I32:
			size = int64(r.Int32())
		case 3<<4 | thrift.I64:
			p.FirstRow = r.Int64()
		default:
			r.Skip(f)
		}
	}
	return p, size
}

// RowsOf is how many rows page i has, of all the pages of a row group.
func RowsOf(pages []Page, i int, rows int64) int64 {
	if i+1 < len(pages) {
		rows = pages[i+1].FirstRow
	}
	return rows - pages[i].FirstRow
}

// PageAt is the page that has a row; after the last one it is len(pages).
func PageAt(pages []Page, row, rows int64) int {
	if row >= rows {
		return len(pages)
	}
	return sort.Search(len(pages), func(i int) bool { return pages[i].FirstRow > row }) - 1
}

func openIndex(c *Chunk, kind crypt.Module, data []byte) ([]byte, error) {
	if c.Crypt == nil {
		return data, nil
	}
	var o crypt.Opener
	return o.Open(nil, c.Crypt, kind, 0, data)
}

func readList[T any](r *thrift.Reader, elem thrift.Field, read func() T) []T {
	n := r.ListOf(elem)
	out := make([]T, 0, min(n, math.MaxInt16))
	for range n {
		if r.Err() != nil {
			return nil
		}
		out = append(out, read())
	}
	return out
}

// readBools reads a list of booleans, each of which is a byte.
func readBools(r *thrift.Reader) []bool {
	n, elem := r.List()
	if n > 0 && elem != thrift.True && elem != thrift.False {
		return nil
	}
	out := make([]bool, n)
	for i := range out {
		out[i] = r.Int8() == 1
	}
	return out
}
