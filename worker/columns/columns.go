// Package columns decodes Parquet column chunks into vectors, window by window. It stands between storage, whose
// bytes pipeline hands to it, and transform, which works on the vectors; footer tells it where chunks lie and how
// their values are to be read.
//
// Everything is decoded here, from page headers up; arrow's reader is not used: it panics on damaged pages and knows
// fewer codecs and encodings. Chunks are decoded a page at a time and pages a window at a time, so a column takes the
// memory of its chunk, of a decompressed page and of a window, within a limit for all columns together. A filter's
// columns may be decoded first, and the others of the windows that keep rows. The input is not trusted: whatever it
// holds, decoding ends with the rows that the footer claims or with an error that names file, row group, column and
// page. The machine is taken to be little endian.
//
// Pages of encrypted chunks are opened before anything else is made of them; internal/storage/README.md says where the keys
// come from.
//
// A Decoder belongs to one goroutine.
package columns

import (
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Decoder decodes the sources of a program from one row group after another. It owns all memory that it decodes
// into and, as long as files' columns are alike, uses it again.
type Decoder struct {
	sources []*pb.Source
	codecs  codecs
	memory  allowance

	file      string
	rowGroup  int
	footer    *footer.Footer // that layout is of
	layout    *layout
	columns   []*column // one for each of layout.leaves
	selectors []*selector
	readers   []reader // one for each source
	later     later
	early     map[int]vector.Early // of sources
	whole     []whole              // one for each of columns, and each as a Source
	chunks    []Source
	owner     bool // of the chunks
	rowsLeft  int64
	err       error // that ended the row group
	out       []*vector.Vector
}

// reader makes the vector of one source, after the columns have decoded a window of rows.
type reader interface {
	read(rows int) (*vector.Vector, error)
}

// NewDecoder returns a decoder of sources that holds at most so many bytes of pages, dictionaries and the window: a
// row group that takes more fails. It can do nothing but Chunks before Reset.
func NewDecoder(sources []*pb.Source, memoryLimit int64) *Decoder {
	return &Decoder{
		sources: sources, memory: allowance{limit: memoryLimit}, err: errNoRowGroup,
		readers: make([]reader, len(sources)), out: make([]*vector.Vector, len(sources)),
	}
}

// Allow sets how many bytes the decoder may hold. It must not be less than what it holds already.
func (d *Decoder) Allow(bytes int64) { d.memory.limit = bytes }

// Held is how many bytes it holds.
func (d *Decoder) Held() int64 { return d.memory.held }

// Forget has the decoder know nothing of the last file any more, but for what its columns are like: of others that are alike the
// memory is used again.
func (d *Decoder) Forget() {
	d.footer, d.err = nil, errNoRowGroup
	clear(d.whole)
	clear(d.chunks)
	for _, c := range d.columns {
		c.chunk, c.source, c.index = nil, nil, nil
	}
}

var errNoRowGroup = errors.New("columns: decoder without a row group")

// AskFor sets whom the decoder asks when it needs more than its limit. It asks for at least least bytes (0: it can do without), and
// at best wish; the answer raises the limit, and an error ends the row group.
func (d *Decoder) AskFor(more func(least, wish int64) (int64, error)) { d.memory.more = more }

// OwnChunks says whether the decoder may change the chunks that it is given next: it then joins the parts of a page in place instead
// of copying them. Such chunks must not be read by anyone else, nor overlap.
func (d *Decoder) OwnChunks(own bool) { d.owner = own }

// Leaves returns which leaf columns of a file the sources need: the footer's indices, ascending, each once for every kind that
// its values are made.
func Leaves(f *footer.Footer, sources []*pb.Source) ([]int, error) {
	l, err := resolve(f, sources)
	if err != nil {
		return nil, err
	}
	leaves := make([]int, len(l.leaves))
	for i, use := range l.leaves {
		leaves[i] = use.leaf
	}
	return leaves, nil
}

// Chunks returns where the column chunks of a row group lie that Reset needs: one for each of Leaves, in that order.
func (d *Decoder) Chunks(f *footer.Footer, rg int) ([]storage.Range, error) {
	leaves, err := Leaves(f, d.sources)
	if err != nil {
		return nil, err
	}
	if rg < 0 || rg >= len(f.RowGroups) {
		return nil, fmt.Errorf("row group %d of %d", rg, len(f.RowGroups))
	}
	ranges := make([]storage.Range, len(leaves))
	for i, leaf := range leaves {
		c := &f.RowGroups[rg].Chunks[leaf]
		ranges[i] = storage.Range{Offset: c.Offset, Length: c.Length}
	}
	return ranges, nil
}

// Reset begins a row group of a file, whose URI is for messages. The chunks are the bytes of Chunks; they are
// read, and without OwnChunks never changed, until the next Reset.
func (d *Decoder) Reset(file string, f *footer.Footer, rg int, chunks [][]byte) error {
	d.whole, d.chunks = slices.Grow(d.whole[:0], len(chunks)), d.chunks[:0]
	for i, data := range chunks {
		d.whole = append(d.whole, data)
		d.chunks = append(d.chunks, &d.whole[i])
	}
	return d.ResetSources(file, f, rg, d.chunks)
}

// ResetSources begins a row group as Reset does, where chunks need not be in memory as a whole.
func (d *Decoder) ResetSources(file string, f *footer.Footer, rg int, chunks []Source) (err error) {
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	d.file, d.rowGroup = file, rg
	if rg < 0 || rg >= len(f.RowGroups) {
		return fmt.Errorf("%s has %d row groups, not number %d", file, len(f.RowGroups), rg)
	}
	if err := d.bind(f); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(chunks) != len(d.columns) {
		return fmt.Errorf("%s row group %d: %d column chunks were read where %d are needed", file, rg, len(chunks), len(d.columns))
	}
	group := &f.RowGroups[rg]
	d.rowsLeft, d.later.rows = group.Rows, 0
	for i, source := range chunks {
		d.columns[i].movable = d.owner
		if err := d.columns[i].reset(file, rg, group, d.layout.leaves[i].leaf, source); err != nil {
			return err
		}
		if w, ok := source.(*whole); ok && len(*w) != d.columns[i].length {
			return d.columns[i].fail(fmt.Errorf("the chunk has %d bytes, %d were read", d.columns[i].length, len(*w)))
		}
	}
	return nil
}

// bind prepares columns and readers for a file.
func (d *Decoder) bind(f *footer.Footer) error {
	if d.footer == f {
		return nil
	}
	l, err := resolve(f, d.sources)
	if err != nil {
		return err
	}
	if d.rebind(f, l) {
		return nil
	}
	d.footer, d.layout, d.memory.held = nil, nil, 0
	d.columns = make([]*column, len(l.leaves))
	for i, use := range l.leaves {
		leaf := &f.Leaves[use.leaf]
		if d.columns[i], err = newColumn(shapeOf(leaf, use.kind), &d.codecs, &d.memory); err != nil {
			return fmt.Errorf("column %s: %w", nameOf(leaf), err)
		}
		d.columns[i].name = nameOf(leaf)
	}
	if err := d.bindReaders(l); err != nil {
		return err
	}
	d.mark(l)
	d.takeEarly(l)
	d.footer, d.layout = f, l
	return nil
}

// rebind goes on with the columns and readers of the file before, if they are the same for this one.
func (d *Decoder) rebind(f *footer.Footer, l *layout) bool {
	if d.layout == nil || len(l.leaves) != len(d.columns) || !slices.Equal(l.bindings, d.layout.bindings) {
		return false
	}
	for i, use := range l.leaves {
		if shapeOf(&f.Leaves[use.leaf], use.kind) != d.columns[i].shape {
			return false
		}
	}
	for i, use := range l.leaves {
		d.columns[i].name = nameOf(&f.Leaves[use.leaf])
	}
	d.footer, d.layout = f, l
	return true
}

// TakeEarly has the decoder take a step of a source's values, where it can: vectors tell. Sources that a filter reads must
// not have one. It holds from the first file on.
func (d *Decoder) TakeEarly(source int, e vector.Early) {
	if d.early == nil {
		d.early = map[int]vector.Early{}
	}
	d.early[source] = e
}

// takeEarly gives the steps to the columns that only one source shows.
func (d *Decoder) takeEarly(l *layout) {
	readers := make([]int, len(d.columns))
	for _, b := range l.bindings {
		if b.stored() {
			readers[b.value]++
		}
		if b.access == mapKey {
			readers[b.key]++
		}
	}
	for i, b := range l.bindings {
		if e, ok := d.early[i]; ok && b.access == plain && readers[b.value] == 1 {
			d.columns[b.value].take(e)
		}
	}
}

func (d *Decoder) bindReaders(l *layout) error {
	selectors := map[[2]int]*selector{}
	d.selectors = d.selectors[:0]
	for i, b := range l.bindings {
		var err error
		switch b.access {
		case absent:
			d.readers[i], err = newConstant(d.sources[i].GetType(), d.sources[i].GetDefault(), &d.memory)
		case nulls:
			d.readers[i], err = newConstant(d.sources[i].GetType(), nil, &d.memory)
		case plain:
			d.readers[i] = d.columns[b.value]
		case mapKey:
			at := [2]int{b.key, b.value}
			if selectors[at] == nil {
				selectors[at] = newSelector(d.columns[b.key], d.columns[b.value], &d.memory)
				d.selectors = append(d.selectors, selectors[at])
			}
			d.readers[i], err = selectors[at].pick(d.sources[i].GetKey())
		}
		if err != nil {
			return fmt.Errorf("feature %s: %w", d.sources[i].GetName(), err)
		}
	}
	return nil
}

// Skip passes over rows, whole pages at a time where it can.
func (d *Decoder) Skip(rows int) error {
	return d.advance(rows, func() error {
		d.settle()
		for _, c := range d.columns {
			c.lag += rows
			if c.index != nil {
				continue // until it is known where decoding goes on: pages before may not be there
			}
			if err := c.skip(c.lag); err != nil {
				return err
			}
			c.lag = 0
		}
		return nil
	})
}

// Next returns vectors of the next rows, one for each source, but for those that DecodeFirst leaves to Rest. They are valid
// until the next call of Next or Skip.
func (d *Decoder) Next(rows int) ([]*vector.Vector, error) {
	err := d.advance(rows, func() error {
		d.settle()
		d.later.rows = rows
		return d.decode(rows, true)
	})
	if err != nil {
		return nil, err
	}
	return d.out, nil
}

// decode decodes the sources that come first, or the others.
func (d *Decoder) decode(rows int, first bool) error {
	for i, c := range d.columns {
		if c.waits == first {
			continue
		}
		if i+1 < len(d.columns) && d.columns[i+1].waits != first {
			d.columns[i+1].prefetch(rows)
		}
		if err := c.skip(c.lag); err != nil {
			return err
		}
		c.lag = 0
		if err := c.next(rows); err != nil {
			return err
		}
	}
	for _, s := range d.selectors {
		if s.waits == first {
			continue
		}
		if err := s.find(rows); err != nil {
			return err
		}
	}
	for i, r := range d.readers {
		if first && d.later.waits(i) {
			d.out[i] = nil
			continue
		}
		if !first && !d.later.waits(i) {
			continue
		}
		var err error
		if d.out[i], err = r.read(rows); err != nil {
			return fmt.Errorf("%s row group %d feature %s: %w", d.file, d.rowGroup, d.sources[i].GetName(), err)
		}
	}
	return nil
}

// advance runs f, which takes rows, and keeps its error: a row group that failed stays failed.
func (d *Decoder) advance(rows int, f func() error) (err error) {
	if d.err != nil {
		return d.err
	}
	if rows < 0 || int64(rows) > d.rowsLeft {
		return fmt.Errorf("%d rows wanted of a row group with %d left", rows, d.rowsLeft)
	}
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	d.rowsLeft -= int64(rows)
	return f()
}

// blame says of a panic what was being decoded.
func (d *Decoder) blame(err *error) {
	if p, ok := errors.AsType[*rescue.PanicError](*err); ok && p.Who == rescue.Decoder {
		*err = fmt.Errorf("%s row group %d: %w", d.file, d.rowGroup, *err)
	}
}
