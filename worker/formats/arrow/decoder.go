// Package arrow decodes record batches of Arrow's IPC files into vectors, window by window. It reads the buffers that
// internal/formats/arrow found, from their fronts to their ends: of those that are not compressed, no more than a
// window needs is looked at.
//
// The input is not trusted: whatever buffers hold, decoding ends with the rows that the file claims, or with an error
// that names file, record batch and column. A Decoder belongs to one goroutine. The machine is taken to be little
// endian.
package arrow

import (
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Decoder decodes the sources of a program from one record batch after another.
type Decoder struct {
	sources []*pb.Source
	memory  decode.Allowance
	codecs  codecs

	bound        *arrow.Bound // nil: it is forgotten
	buffers      map[int]*buffer
	dictionaries map[dictionaryKey]*dictionary
	columns      []*column
	selectors    map[*column]*selector // by what makes their keys
	readers      []decode.Reader       // one for each source
	out          []*vector.Vector

	file     string
	extent   int
	row      int // of the record batch, that comes next
	rowsLeft int
	err      error // that ended the record batch
}

// selector finds keys of a map; errors are about its keys.
type selector struct {
	*decode.Selector
	keys    *column
	entries map[*column]*decode.Entries // by what makes their values
}

var errNoBatch = errors.New("arrow: decoder without a record batch")

// NewDecoder returns a decoder of sources.
func NewDecoder(sources []*pb.Source) *Decoder {
	return &Decoder{
		sources: sources, readers: make([]decode.Reader, len(sources)), out: make([]*vector.Vector, len(sources)),
		err: errNoBatch,
	}
}

// Memory is what the decoder may hold.
func (d *Decoder) Memory() *decode.Allowance { return &d.memory }

// Forget gives up the last file, and all memory.
func (d *Decoder) Forget() {
	d.bound, d.err = nil, errNoBatch
	d.buffers, d.dictionaries, d.columns, d.selectors = nil, nil, nil, nil
	d.codecs.input.Reset(nil)
	clear(d.readers)
	clear(d.out)
	d.memory.Give(d.memory.Held())
}

// Reset begins a record batch of a file, whose URI is for messages. There is a source for each of the bound's chunks.
func (d *Decoder) Reset(file string, b format.Bound, extent int, chunks []decode.Source) (err error) {
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	d.file, d.extent = file, extent
	bound, ok := b.(*arrow.Bound)
	if !ok || extent < 0 || extent >= len(bound.Extents()) {
		return errors.New("it is no record batch of an Arrow file")
	}
	if d.bound != bound {
		if err := d.bind(bound); err != nil {
			return err
		}
	}
	batch := bound.Batch(extent)
	d.row, d.rowsLeft = 0, int(batch.Rows)
	for _, number := range bound.Buffers() {
		d.buffers[number].reset(chunks[0], batch.Buffers[number].Length, batch.Codec)
		chunks = chunks[1:]
	}
	for _, c := range d.columns {
		c.begin(batch)
	}
	return d.readDictionaries(chunks)
}

// bind prepares columns and readers for a file.
func (d *Decoder) bind(b *arrow.Bound) error {
	d.Forget()
	d.buffers, d.dictionaries = map[int]*buffer{}, map[dictionaryKey]*dictionary{}
	for _, number := range b.Buffers() {
		d.buffers[number] = &buffer{memory: &d.memory, codecs: &d.codecs}
	}
	type use struct {
		array *arrow.Array
		kind  pb.Kind
	}
	columns := map[use]*column{}
	column := func(a *arrow.Array, kind pb.Kind, name string) (*column, error) {
		if c := columns[use{a, kind}]; c != nil {
			return c, nil
		}
		c, err := d.newColumn(a, kind, name)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		columns[use{a, kind}] = c
		d.columns = append(d.columns, c)
		return c, nil
	}
	for i, at := range b.Bindings {
		var err error
		source := d.sources[i]
		name, kind := nameOf(source), source.GetType().GetKind()
		switch at.Access {
		case format.Absent:
			d.readers[i], err = decode.NewConstant(source.GetType(), source.GetDefault(), &d.memory)
		case format.Nulls:
			d.readers[i], err = decode.NewConstant(source.GetType(), nil, &d.memory)
		case format.Plain:
			c, errColumn := column(at.Arrays[0], kind, name)
			if err = errColumn; err == nil {
				d.readers[i], err = decode.Deeper(c, c.out.Type.Nested, source.GetType(), &d.memory)
			}
		case format.MapKey:
			keys, errKeys := column(at.Arrays[0], at.Arrays[0].Kind, name)
			values, errValues := column(at.Arrays[1], kind, name)
			if err = errors.Join(errKeys, errValues); err != nil {
				break
			}
			d.readers[i], err = d.entriesOf(keys, values).Pick(source.GetKey(), source.GetType())
		}
		if err != nil {
			return fmt.Errorf("feature %s: %w", source.GetName(), err)
		}
	}
	d.bound = b
	return nil
}

// entriesOf are the entries that columns make.
func (d *Decoder) entriesOf(keys, values *column) *decode.Entries {
	if d.selectors == nil {
		d.selectors = map[*column]*selector{}
	}
	s := d.selectors[keys]
	if s == nil {
		s = &selector{
			decode.NewSelector(keys, keys.out.Type.Kind, &d.memory), keys, map[*column]*decode.Entries{},
		}
		d.selectors[keys] = s
	}
	if s.entries[values] == nil {
		s.entries[values] = s.Entries(values)
	}
	return s.entries[values]
}

// Skip passes over rows.
func (d *Decoder) Skip(rows int) error {
	return d.advance(rows, func() error { return nil })
}

// Next returns vectors of the next rows, one for each source. They are valid until the next call of Next or Skip.
func (d *Decoder) Next(rows int) ([]*vector.Vector, error) {
	err := d.advance(rows, func() error {
		for _, c := range d.columns {
			if err := c.next(d.row, rows); err != nil {
				return c.fail(err)
			}
		}
		for _, s := range d.selectors {
			if err := s.Find(rows); err != nil {
				return s.keys.fail(err)
			}
			for _, e := range s.entries {
				if err := e.Load(rows); err != nil {
					return s.keys.fail(err)
				}
			}
		}
		for i, r := range d.readers {
			var err error
			if d.out[i], err = r.Read(rows); err != nil {
				return fmt.Errorf("feature %s: %w", d.sources[i].GetName(), err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.out, nil
}

// advance runs f, which takes rows, and keeps its error: a record batch that failed stays failed.
func (d *Decoder) advance(rows int, f func() error) (err error) {
	if d.err != nil {
		return d.err
	}
	if rows < 0 || rows > d.rowsLeft {
		return fmt.Errorf("%d rows wanted of a record batch with %d left", rows, d.rowsLeft)
	}
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	if err := f(); err != nil {
		return err
	}
	d.row += rows
	d.rowsLeft -= rows
	return nil
}

// blame says what was being decoded.
func (d *Decoder) blame(err *error) {
	if *err != nil {
		*err = fmt.Errorf("%s record batch %d: %w", d.file, d.extent, *err)
	}
}

// Explain says, source by source, how a record batch is read: "zstd, dictionary of utf8".
func (d *Decoder) Explain(b format.Bound, extent int) ([]string, error) {
	bound, ok := b.(*arrow.Bound)
	if !ok || extent < 0 || extent >= len(bound.Extents()) {
		return nil, errors.New("it is no record batch of an Arrow file")
	}
	codec := bound.Batch(extent).Codec.String()
	out := make([]string, len(d.sources))
	for i, at := range bound.Bindings {
		switch at.Access {
		case format.Absent:
			out[i] = "absent from the file"
			continue
		case format.Nulls:
			out[i] = "nulls without a type"
			continue
		}
		values := at.Arrays[len(at.Arrays)-1]
		out[i] = codec + ", " + values.Type.String()
		if values.Index != nil {
			out[i] = codec + ", dictionary of " + values.Type.String()
		}
		if at.Access == format.MapKey {
			out[i] += fmt.Sprintf(", key %q of the map", d.sources[i].GetKey())
		}
	}
	return out, nil
}
