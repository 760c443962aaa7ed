package convert

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

// sorted is a source with the rows of another one in their order. Blocks of rows are sorted in memory (block), all but
// the last one become files (sortspill.go), and these are merged (sortmerge.go). Rows that are equal keep their order.
// A run that goes on behind finished files sorts again, which gives the same.
type sorted struct {
	source
	by       []sortKey
	dir      string // of temporary files
	bounds   sortBounds
	progress func(Progress)
	block    *block       // being filled
	files    []spilled    // the rows before, in the order in which they came
	rows     sequence     // nil before all are read
	rest     arrow.Record // of the sequence, not given yet
	given    int64
}

// sequence gives rows in their order, some at a time, and errEnd after the last.
type sequence interface {
	next(ctx context.Context) (arrow.Record, error)
}

// sortBounds bound what is in memory: a block and a record of it, or, of each file that is merged, a record.
type sortBounds struct {
	block  int64 // bytes
	record int64 // bytes of records in files
	files  int   // that are merged to one
}

func defaultSortBounds() sortBounds {
	return sortBounds{block: 128 << 20, record: 512 << 10, files: 128}
}

func newSorted(src source, by []sortKey, dir string, progress func(Progress)) *sorted {
	s := &sorted{source: src, by: by, dir: dir, bounds: defaultSortBounds(), progress: progress}
	s.block = s.newBlock()
	return s
}

func (s *sorted) next(ctx context.Context, limit int64) (rec arrow.Record, err error) {
	if s.rows == nil {
		if err := s.sort(ctx); err != nil {
			return nil, err
		}
	}
	if s.rest == nil {
		if s.rest, err = s.rows.next(ctx); err != nil {
			return nil, err
		}
	}
	rec, s.rest = cut(s.rest, limit)
	s.given += rec.NumRows()
	return rec, nil
}

// cut cuts a record; the rest is nil if nothing is left.
func cut(rec arrow.Record, limit int64) (first, rest arrow.Record) {
	if rec.NumRows() <= limit {
		return rec, nil
	}
	return rec.NewSlice(0, limit), rec.NewSlice(limit, rec.NumRows())
}

// behind counts rows in their order, as if they were one input.
func (s *sorted) behind() place { return place{Row: s.given} }

func (s *sorted) seek(context.Context, int) error { return nil } // there is one input, at whose beginning it is

func (s *sorted) close() {
	for _, f := range s.files {
		f.close()
	}
	s.files = nil
	s.source.close()
}

// sort reads all rows.
func (s *sorted) sort(ctx context.Context) error {
	for {
		rec, err := s.source.next(ctx, batchRows)
		if errors.Is(err, errEnd) {
			break
		}
		if err != nil {
			return err
		}
		if s.block.add(rec); s.block.bytes >= s.bounds.block {
			if err := s.spill(ctx); err != nil {
				return err
			}
		}
		if s.progress != nil {
			used, total := s.read()
			s.progress(Progress{Read: used, BytesToRead: total}) // no row is written yet
		}
	}
	s.block.sort()
	sequences := make([]sequence, 0, len(s.files)+1)
	for _, f := range s.files {
		sequences = append(sequences, f)
	}
	s.rows = s.merge(append(sequences, s.block))
	s.block = nil
	return nil
}

// block is rows in memory.
type block struct {
	by      []sortKey
	schema  *arrow.Schema
	most    int64 // bytes of the records that next makes, about
	bytes   int64 // of all rows, with their keys
	records []arrow.Record
	keys    []byte
	rows    []blockRow
	rowsOf  int // a record that next makes
}

type blockRow struct {
	prefix      uint64
	from, to    uint32 // its key
	record, row int32
}

const blockRowBytes = 24

func (s *sorted) newBlock() *block {
	return &block{by: s.by, schema: s.schema(), most: s.bounds.record}
}

func (b *block) add(rec arrow.Record) {
	before := len(b.keys)
	for row := range int(rec.NumRows()) {
		from := len(b.keys)
		b.keys = appendKey(b.keys, b.by, rec, row)
		b.rows = append(b.rows, blockRow{
			prefix(b.keys[from:]), uint32(from), uint32(len(b.keys)), int32(len(b.records)), int32(row),
		})
	}
	b.records = append(b.records, rec)
	b.bytes += sizeOf(rec) + int64(len(b.keys)-before) + rec.NumRows()*blockRowBytes
}

func (b *block) sort() {
	slices.SortFunc(b.rows, func(x, y blockRow) int {
		if x.prefix != y.prefix {
			return cmp.Compare(x.prefix, y.prefix)
		}
		return cmp.Or(bytes.Compare(b.keys[x.from:x.to], b.keys[y.from:y.to]), cmp.Compare(x.record, y.record),
			cmp.Compare(x.row, y.row))
	})
	b.rowsOf = int(max(1, int64(len(b.rows))*b.most/max(1, b.bytes)))
}

// next makes a record of the next rows of a sorted block.
func (b *block) next(context.Context) (arrow.Record, error) {
	if len(b.rows) == 0 {
		b.records, b.keys = nil, nil
		return nil, errEnd
	}
	for {
		n := min(b.rowsOf, len(b.rows))
		order := make(spans, n)
		for i, r := range b.rows[:n] {
			order[i] = span{int(r.record), int(r.row), 1}
		}
		rec, err := gatherRecord(b.schema, b.records, order)
		if err != nil {
			return nil, err
		}
		size := sizeOf(rec)
		b.rowsOf = int(max(1, int64(n)*b.most/max(1, size))) // rows differ in size
		if size <= 2*b.most || n == 1 {
			b.rows = b.rows[n:]
			return rec, nil
		}
	}
}
