package footer

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/penstock-ml/penstock/internal/footer/crypt"
	"github.com/penstock-ml/penstock/internal/footer/thrift"
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
	c, rows := &f.RowGroups[rg].Chunks[leaf], f.RowGroups[rg].Rows
	data, err := openIndex(c, crypt.OffsetIndex, data)
	if err != nil {
		return nil, err
	}
	var pages []Page
	r := thrift.NewReader(data)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		if f != 1<<4|thrift.List {
			r.Skip(f)
			continue
		}
		for range r.ListOf(thrift.Struct) {
			p := readPage(r)
			last := Page{Offset: c.Offset - 1, FirstRow: -1}
			if len(pages) > 0 {
				last = pages[len(pages)-1]
			} else if p.FirstRow != 0 {
				return nil, errors.New("its first page does not begin with the first row")
			}
			if p.Offset <= last.Offset || p.FirstRow <= last.FirstRow || p.Offset >= c.Offset+c.Length || p.FirstRow >= rows {
				return nil, fmt.Errorf("page %d at byte %d, row %d is out of order", len(pages), p.Offset, p.FirstRow)
			}
			pages = append(pages, p)
		}
	}
	if r.Err() == nil && len(pages) == 0 {
		return nil, errors.New("it lists no pages")
	}
	return pages, r.Err()
}

// readPage reads a PageLocation. Pages end where the next ones begin, whatever length it claims.
func readPage(r *thrift.Reader) (p Page) {
	p.FirstRow = -1
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I64:
			p.Offset = r.Int64()
		case 3<<4 | thrift.I64:
			p.FirstRow = r.Int64()
		default:
			r.Skip(f)
		}
	}
	return p
}

// PageStats parses the ColumnIndex of a chunk of scalars, which has these pages. As statistics are, they are believed where they
// can be trusted at all.
func (f *Footer) PageStats(rg, leaf int, pages []Page, data []byte) ([]Stats, error) {
	data, err := openIndex(&f.RowGroups[rg].Chunks[leaf], crypt.ColumnIndex, data)
	if err != nil {
		return nil, err
	}
	var lows, highs [][]byte
	var empty []bool
	var nulls []int64
	r := thrift.NewReader(data)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.List:
			empty = readBools(r)
		case 2<<4 | thrift.List:
			lows = readList(r, thrift.Binary, r.Bytes)
		case 3<<4 | thrift.List:
			highs = readList(r, thrift.Binary, r.Bytes)
		case 5<<4 | thrift.List:
			nulls = readList(r, thrift.I64, r.Int64)
		default:
			r.Skip(f)
		}
	}
	n := len(pages)
	if r.Err() != nil {
		return nil, r.Err()
	}
	if len(empty) != n || len(lows) != n || len(highs) != n || nulls != nil && len(nulls) != n {
		return nil, fmt.Errorf("it has %d, %d and %d entries for %d pages", len(empty), len(lows), len(highs), n)
	}
	out, l, a := make([]Stats, n), &f.Leaves[leaf], arena{}
	for i := range out {
		rows := RowsOf(pages, i, f.RowGroups[rg].Rows)
		raw := rawStats{nulls: -1}
		if nulls != nil {
			raw.nulls = nulls[i]
		}
		if empty[i] {
			raw.nulls = rows
		} else if !l.unordered {
			raw.min, raw.max = lows[i], highs[i]
		}
		out[i] = statsOf(l, rows, raw, &a)
	}
	return out, nil
}

// RowsOf is how many rows page i has, of all the pages of a row group.
func RowsOf(pages []Page, i int, rows int64) int64 {
	if i+1 < len(pages) {
		rows = pages[i+1].FirstRow
	}
	return rows - pages[i].FirstRow
}

// PageAt is the page that has a row; behind the last one it is len(pages).
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
