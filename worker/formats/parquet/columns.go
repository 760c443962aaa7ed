// Package parquet decodes Parquet column chunks into vectors, window by window. internal/formats/parquet tells it where
// chunks lie and how their values are to be read.
//
// Everything is decoded here, from page headers up; arrow's reader is not used: it panics on damaged pages and knows
// fewer codecs and encodings. Chunks are decoded a page at a time and pages a window at a time, so a column takes the
// memory of its chunk, of a decompressed page and of a window, within a limit for all columns together. A filter's
// columns may be decoded first, and the others of the windows that keep rows. The input is not trusted: whatever it
// holds, decoding ends with the rows that the footer claims or with an error that names file, row group, column and
// page. The machine is taken to be little endian.
//
// Pages of encrypted chunks are opened before anything else is made of them; docs/reference/storage.md says where the
// keys come from.
//
// A Decoder belongs to one goroutine.
package parquet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Decoder decodes the sources of a program from one row group after another. It owns all memory that it decodes
// into and, as long as files' columns are alike, uses it again.
type Decoder struct {
	sources []*pb.Source
	codecs  codecs
	memory  decode.Allowance

	file      string
	rowGroup  int
	bound     *footer.Bound // nil: it is forgotten
	bindings  []footer.Binding
	columns   []*column // one for each of bound.Uses
	selectors []*selector
	readers   []decode.Reader // one for each source
	later     later
	early     map[int]vector.Early // of sources
	owner     bool                 // of the chunks
	rowsLeft  int64
	err       error // that ended the row group
	out       []*vector.Vector
}

// selector finds keys of a map, after its columns have decoded a window of rows.
type selector struct {
	*decode.Selector
	keys    *column
	waits   bool // it is for Rest
	entries []*entries
}

// entries are what is read of the entries of a map.
type entries struct {
	*decode.Entries
	values *column
}

// NewDecoder returns a decoder of sources that holds at most so many bytes of pages, dictionaries and the window: a
// row group that takes more fails.
func NewDecoder(sources []*pb.Source, memoryLimit int64) *Decoder {
	return &Decoder{
		sources: sources, memory: *decode.NewAllowance(memoryLimit), err: errNoRowGroup,
		readers: make([]decode.Reader, len(sources)), out: make([]*vector.Vector, len(sources)),
	}
}

// Memory is what the decoder may hold.
func (d *Decoder) Memory() *decode.Allowance { return &d.memory }

// Forget has the decoder know nothing of the last file any more, but for what its columns are like: of others that are
// alike the memory is used again.
func (d *Decoder) Forget() {
	d.bound, d.err = nil, errNoRowGroup
	for _, c := range d.columns {
		c.chunk, c.source, c.index = nil, nil, nil
	}
}

var errNoRowGroup = errors.New("columns: decoder without a row group")

// OwnChunks says whether the decoder may change the chunks that it is given next: it then joins the parts of a page in
// place instead of copying them. Such chunks must not be read by anyone else, nor overlap.
func (d *Decoder) OwnChunks(own bool) { d.owner = own }

// Reset begins a row group of a file, whose URI is for messages. There is a source for each of the bound's chunks;
// without OwnChunks their bytes are never changed.
func (d *Decoder) Reset(file string, of format.Bound, rg int, chunks []decode.Source) (err error) {
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	b, ok := of.(*footer.Bound)
	if !ok {
		return fmt.Errorf("%s is no Parquet file", file)
	}
	d.file, d.rowGroup = file, rg
	if rg < 0 || rg >= len(b.RowGroups) {
		return fmt.Errorf("%s has %d row groups, not number %d", file, len(b.RowGroups), rg)
	}
	if err := d.bind(b); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(chunks) != len(d.columns) {
		return fmt.Errorf("%s row group %d: %d column chunks were read where %d are needed",
			file, rg, len(chunks), len(d.columns))
	}
	rows := b.RowGroups[rg].Rows
	d.rowsLeft, d.later.rows = rows, 0
	for i, source := range chunks {
		d.columns[i].movable = d.owner
		if err := d.columns[i].reset(file, rg, rows, b.ChunkOf(rg, d.bound.Uses[i].Leaf), source); err != nil {
			return err
		}
		if w, ok := source.(*decode.Whole); ok && len(*w) != d.columns[i].length {
			return d.columns[i].fail(fmt.Errorf("the chunk has %d bytes, %d were read", d.columns[i].length, len(*w)))
		}
	}
	return nil
}

// bind prepares columns and readers for a file.
func (d *Decoder) bind(b *footer.Bound) (err error) {
	if d.bound == b || d.rebind(b) {
		return nil
	}
	d.memory.Give(d.memory.Held())
	d.bound, d.bindings, d.columns = nil, nil, make([]*column, len(b.Uses))
	for i, use := range b.Uses {
		leaf := &b.Leaves[use.Leaf]
		if d.columns[i], err = newColumn(shapeOf(leaf, use), &d.codecs, &d.memory); err != nil {
			return fmt.Errorf("column %s: %w", nameOf(leaf), err)
		}
		d.columns[i].name = nameOf(leaf)
	}
	if err := d.bindReaders(b); err != nil {
		return err
	}
	d.mark(b)
	d.takeEarly(b)
	d.bound, d.bindings = b, b.Bindings
	return nil
}

// rebind goes on with the columns and readers of the file before, if they are the same for this one.
func (d *Decoder) rebind(b *footer.Bound) bool {
	if d.bindings == nil || len(b.Uses) != len(d.columns) || !slices.Equal(b.Bindings, d.bindings) {
		return false
	}
	for i, use := range b.Uses {
		if shapeOf(&b.Leaves[use.Leaf], use) != d.columns[i].shape {
			return false
		}
	}
	for i, use := range b.Uses {
		d.columns[i].name = nameOf(&b.Leaves[use.Leaf])
	}
	d.bound = b
	return true
}

func nameOf(l *footer.Leaf) string { return strings.Join(l.Path, ".") }

// TakeEarly has the decoder take a step of a source's values, where it can: vectors tell. Sources that a filter reads
// must not have one. It holds from the first file on.
func (d *Decoder) TakeEarly(source int, e vector.Early) {
	if d.early == nil {
		d.early = map[int]vector.Early{}
	}
	d.early[source] = e
}

// takeEarly gives the steps to the columns that only one source shows.
func (d *Decoder) takeEarly(b *footer.Bound) {
	readers := make([]int, len(d.columns))
	for _, at := range b.Bindings {
		if at.Stored() {
			readers[at.Value]++
		}
		if at.Access == format.MapKey {
			readers[at.Key]++
		}
	}
	for i, at := range b.Bindings {
		if e, ok := d.early[i]; ok && at.Access == format.Plain && readers[at.Value] == 1 {
			d.columns[at.Value].take(e)
		}
	}
}

func (d *Decoder) bindReaders(b *footer.Bound) error {
	d.selectors = d.selectors[:0]
	for i, at := range b.Bindings {
		var err error
		switch source := d.sources[i]; at.Access {
		case format.Absent:
			d.readers[i], err = decode.NewConstant(source.GetType(), source.GetDefault(), &d.memory)
		case format.Nulls:
			d.readers[i], err = decode.NewConstant(source.GetType(), nil, &d.memory)
		case format.Plain:
			c := d.columns[at.Value]
			d.readers[i], err = decode.Deeper(c, c.out.Type.Nested, source.GetType(), &d.memory)
		case format.MapKey:
			of := d.entriesOf(d.columns[at.Key], d.columns[at.Value])
			d.readers[i], err = of.Pick(source.GetKey(), source.GetType())
		}
		if err != nil {
			return fmt.Errorf("feature %s: %w", d.sources[i].GetName(), err)
		}
	}
	return nil
}

// entriesOf are the entries that columns make.
func (d *Decoder) entriesOf(keys, values *column) *decode.Entries {
	i := slices.IndexFunc(d.selectors, func(s *selector) bool { return s.keys == keys })
	if i < 0 {
		i = len(d.selectors)
		d.selectors = append(d.selectors, &selector{
			Selector: decode.NewSelector(keys, keys.kind, &d.memory), keys: keys,
		})
	}
	s := d.selectors[i]
	j := slices.IndexFunc(s.entries, func(e *entries) bool { return e.values == values })
	if j < 0 {
		j = len(s.entries)
		s.entries = append(s.entries, &entries{s.Entries(values), values})
	}
	return s.entries[j].Entries
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

// Next returns vectors of the next rows, one for each source, but for those that DecodeFirst leaves to Rest. They are
// valid until the next call of Next or Skip.
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
		if s.waits != first {
			if err := s.Find(rows); err != nil {
				return s.keys.fail(err)
			}
		}
		for _, e := range s.entries {
			if (s.waits || e.values.waits) == first {
				continue
			}
			if err := e.Load(rows); err != nil {
				return s.keys.fail(err)
			}
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
		if d.out[i], err = r.Read(rows); err != nil {
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
