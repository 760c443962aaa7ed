package parquet

import (
	"bytes"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/parquet/crypt"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// columnIndex is a ColumnIndex as a file has it: lists of one entry a page.
type columnIndex struct {
	empty      []bool // the page has nothing but nulls
	mins, maxs [][]byte
	order      pageOrder
	nulls      []int64 // nil: it does not say
	levels     []int64 // of each page, how many values have each definition level; nil: it does not say
}

// pageOrder is how pages' bounds follow each other, numbered as in parquet.thrift.
type pageOrder int32

const (
	ascending  pageOrder = 1
	descending pageOrder = 2
)

// PageStats parses the ColumnIndex of a chunk of scalars, which has these pages. It fails where the index contradicts
// itself, or what the footer and the offset index say of the chunk: then nothing of it is known.
func (f *Footer) PageStats(rg, leaf int, pages []Page, data []byte) ([]Stats, error) {
	c := f.ChunkOf(rg, leaf)
	data, err := openIndex(c, crypt.ColumnIndex, data)
	if err != nil {
		return nil, err
	}
	x, err := readColumnIndex(data)
	if err != nil {
		return nil, err
	}
	return x.stats(&f.Leaves[leaf], pages, f.RowGroups[rg].Rows, &c.Stats)
}

func readColumnIndex(data []byte) (x columnIndex, err error) {
	r := thrift.NewReader(data)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.List:
			x.empty = readBools(r)
		case 2<<4 | thrift.List:
			x.mins = readList(r, thrift.Binary, r.Bytes)
		case 3<<4 | thrift.List:
			x.maxs = readList(r, thrift.Binary, r.Bytes)
		case 4<<4 | thrift.I32:
			x.order = pageOrder(r.Int32())
		case 5<<4 | thrift.List:
			x.nulls = readList(r, thrift.I64, r.Int64)
		case 7<<4 | thrift.List:
			x.levels = readList(r, thrift.I64, r.Int64)
		default:
			r.Skip(f)
		}
	}
	return x, r.Err()
}

// stats returns the pages' statistics, of a chunk of so many rows with these statistics.
func (x *columnIndex) stats(l *Leaf, pages []Page, rows int64, chunk *Stats) ([]Stats, error) {
	n := len(pages)
	if len(x.empty) != n || len(x.mins) != n || len(x.maxs) != n || x.nulls != nil && len(x.nulls) != n {
		return nil, fmt.Errorf("it has %d, %d and %d entries for %d pages", len(x.empty), len(x.mins), len(x.maxs), n)
	}
	if len(x.levels) > 0 && len(x.levels) != n*(l.MaxDef+1) {
		return nil, fmt.Errorf("it counts %d definition levels for %d pages", len(x.levels), n)
	}
	out, a, whole := make([]Stats, n), arena{}, newHull(l, chunk)
	for i := range out {
		count := RowsOf(pages, i, rows)
		raw, why := x.page(i, l, count)
		if why == "" {
			out[i] = statsOf(l, count, raw, &a)
			why = out[i].Contradiction
		}
		if why == "" {
			why = whole.add(&out[i], x.empty[i], x.order)
		}
		if why != "" {
			return nil, fmt.Errorf("page %d of %d rows: %s", i, count, why)
		}
	}
	if why := whole.close(rows); why != "" {
		return nil, fmt.Errorf("its %d pages: %s", n, why)
	}
	return out, nil
}

// page is what the index has of a page of so many rows, or why that cannot be.
func (x *columnIndex) page(i int, l *Leaf, rows int64) (raw rawStats, why string) {
	raw = unknownStats()
	raw.min, raw.max = x.mins[i], x.maxs[i]
	if len(x.levels) > 0 {
		raw.levels = x.levels[i*(l.MaxDef+1):][:l.MaxDef+1]
	}
	if x.nulls != nil {
		raw.nulls = x.nulls[i]
	}
	switch {
	case raw.nulls == -1 && x.empty[i]:
		raw.nulls = rows
	case raw.nulls >= 0 && x.empty[i] != (raw.nulls == rows):
		return raw, fmt.Sprintf("it has %d nulls, but whether it has nothing else is said to be %v",
			raw.nulls, x.empty[i])
	}
	return raw, ""
}

// hull adds up pages, to compare them with each other and with their chunk.
type hull struct {
	leaf     *Leaf
	chunk    *Stats
	nulls    int64  // of the pages that say so
	counted  bool   // all do
	bounded  bool   // all have bounds, but those of nothing but nulls
	valued   bool   // a page has more than nulls
	min, max []byte // of the pages that have bounds
	last     *Stats // of these
}

func newHull(l *Leaf, chunk *Stats) hull {
	return hull{leaf: l, chunk: chunk, counted: true, bounded: true}
}

// add takes a page and says what of it cannot be.
func (h *hull) add(p *Stats, empty bool, order pageOrder) (why string) {
	h.counted = h.counted && p.Nulls >= 0
	h.nulls += max(0, p.Nulls)
	if empty {
		return ""
	}
	h.valued = true
	if p.Min == nil || p.Max == nil {
		h.bounded = false
		return ""
	}
	last := h.last
	h.last = p
	switch {
	case h.outside(p):
		return "its bounds lie outside those of the column chunk"
	case last != nil && !h.follows(last, p, order):
		return "its bounds are not in the order that the index has"
	}
	if h.min == nil || h.compare(p.Min, h.min) < 0 {
		h.min = p.Min
	}
	if h.max == nil || h.compare(p.Max, h.max) > 0 {
		h.max = p.Max
	}
	return ""
}

func (h *hull) compare(a, b []byte) int { return compare(h.leaf.Kind, a, b) }

// exact reports whether bounds are values; writers may cut bytes short, to bounds that are wider.
func (h *hull) exact() bool { return h.leaf.Kind != pb.Kind_BINARY }

// outside reports whether a page has bounds that no page of the chunk can have.
func (h *hull) outside(p *Stats) bool {
	low, high := p.Max, p.Min
	if h.exact() {
		low, high = p.Min, p.Max
	}
	return h.chunk.Min != nil && h.compare(low, h.chunk.Min) < 0 || h.chunk.Max != nil &&
		h.compare(high, h.chunk.Max) > 0
}

// follows reports whether p may be the page with values after last.
func (h *hull) follows(last, p *Stats, order pageOrder) bool {
	low, high := h.compare(last.Min, p.Min), h.compare(last.Max, p.Max)
	switch order {
	case ascending:
		return low <= 0 && high <= 0
	case descending:
		return low >= 0 && high >= 0
	}
	return true
}

// close says what of all pages together cannot be, of a chunk of so many rows.
func (h *hull) close(rows int64) (why string) {
	nulls := h.chunk.Nulls
	switch {
	case nulls >= 0 && (h.nulls > nulls || h.counted && h.nulls != nulls):
		return fmt.Sprintf("they have %d nulls, and the column chunk %d", h.nulls, nulls)
	case h.valued && nulls == rows:
		return "there are values in them, and none in the column chunk"
	case !h.valued && (h.chunk.Min != nil || h.chunk.Max != nil):
		return "there are no values in them, and the column chunk has bounds"
	case h.valued && h.bounded && h.short():
		return "their bounds do not reach those of the column chunk"
	}
	return ""
}

// cutAtMost is how many bytes at the end of an upper bound may be greater than those of the value that was cut: a
// character's.
const cutAtMost = 4

// short reports whether the pages' bounds leave out the chunk's least value, or its greatest. Where bounds are values,
// these are the chunk's bounds. Else the least one begins with the lower one, and the greatest is not less than what is
// left of the upper one without its last character.
func (h *hull) short() bool {
	low, high := h.chunk.Min, h.chunk.Max
	if h.exact() {
		return low != nil && h.compare(h.min, low) > 0 || high != nil && h.compare(h.max, high) < 0
	}
	return low != nil && h.compare(h.min, low) > 0 && !bytes.HasPrefix(h.min, low) ||
		high != nil && h.compare(h.max, high[:max(0, len(high)-cutAtMost)]) < 0
}
