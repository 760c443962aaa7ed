// Package records decodes extents of files that are runs of records into vectors, window by window: it decompresses
// them, cuts them as internal/formats/records did, and has the format's Parser say what each record holds. A folder
// beside this one has the parser of each format.
//
// The input is not trusted: whatever records hold, decoding ends with the rows that the index claims, or with an error
// that names file, extent, row and byte. A Decoder belongs to one goroutine.
package records

import (
	"errors"
	"fmt"
	"io"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Parser finds the values of a file's records.
type Parser interface {
	// Parse sets what a record has of the columns; what it does not set is absent there, and has the source's default.
	// The record is not valid afterwards. An error is about this record alone, and says at which of its bytes it is
	// wrong.
	Parse(record []byte, columns []*Column) error
}

// NewParser returns the parser of a file's records for sources. Columns of sources that the file lacks are nil.
type NewParser func(f *records.File, sources []*pb.Source) (Parser, error)

// Decoder decodes the sources of a program from one extent after another.
type Decoder struct {
	sources []*pb.Source
	parser  NewParser
	memory  decode.Allowance

	bound   *records.Bound // nil: it is forgotten
	parse   Parser
	columns []*Column       // one for each source; nil: a constant
	readers []decode.Reader // of constants
	out     []*vector.Vector

	in       *records.Stream
	unpacked *records.Unpacked // nil: the file is not compressed, or none was begun
	rows     *records.Buffered // what these are decompressed to
	buffer   []byte            // that records are decompressed into
	place    format.Place

	file     string
	extent   int
	row      int64 // of the file, that comes next
	rowsLeft int
	window   int            // rows of the window so far
	faults   []decode.Fault // of the window
	err      error          // that ended the extent
}

// maxFaults bounds how many rows of a window may be wrong: nobody leaves out as many.
const maxFaults = 1 << 13

var errNoExtent = errors.New("records: decoder without an extent")

// NewDecoder returns a decoder of sources from files of a format.
func NewDecoder(sources []*pb.Source, parser NewParser) *Decoder {
	return &Decoder{
		sources: sources, parser: parser, columns: make([]*Column, len(sources)),
		readers: make([]decode.Reader, len(sources)), out: make([]*vector.Vector, len(sources)), err: errNoExtent,
	}
}

// Memory is what the decoder may hold.
func (d *Decoder) Memory() *decode.Allowance { return &d.memory }

// Forget gives up the last file, and all memory.
func (d *Decoder) Forget() {
	if d.unpacked != nil {
		d.unpacked.Close()
	}
	d.in, d.rows, d.unpacked = nil, nil, nil
	d.bound, d.parse, d.err, d.buffer = nil, nil, errNoExtent, nil
	clear(d.columns)
	clear(d.readers)
	clear(d.out)
	d.memory.Give(d.memory.Held())
}

// Reset begins an extent of a file, whose URI is for messages. There is one chunk.
func (d *Decoder) Reset(file string, b format.Bound, extent int, chunks []decode.Source) (err error) {
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	d.file, d.extent = file, extent
	bound, ok := b.(*records.Bound)
	if !ok || len(chunks) != 1 || bound.Place(extent).Rows == 0 {
		return errors.New("it is no extent of a file of records")
	}
	if d.bound != bound {
		if err := d.bind(bound); err != nil {
			return err
		}
	}
	place := bound.Place(extent)
	d.place, d.row, d.rowsLeft = place, place.FirstRow, int(place.Rows)
	return d.open(place, chunks[0])
}

// bind prepares columns for a file.
func (d *Decoder) bind(b *records.Bound) (err error) {
	d.Forget()
	for i, how := range b.Access {
		source := d.sources[i]
		switch how {
		case format.Absent:
			d.readers[i], err = decode.NewConstant(source.GetType(), source.GetDefault(), &d.memory)
		case format.Nulls:
			d.readers[i], err = decode.NewConstant(source.GetType(), nil, &d.memory)
		default:
			d.columns[i], err = newColumn(source, &d.memory)
		}
		if err != nil {
			return fmt.Errorf("feature %s: %w", source.GetName(), err)
		}
	}
	if d.parse, err = d.parser(b.File, d.sources); err != nil {
		return err
	}
	d.bound = b
	return nil
}

// open begins to read an extent's bytes.
func (d *Decoder) open(p format.Place, chunk decode.Source) error {
	if d.bound.Codec == records.Plain {
		// Records lie in the chunk, and are not copied.
		in := &inChunk{chunk: chunk, left: int(d.bound.Chunk(p.Index, 0).Length)}
		d.in = records.NewStream(d.bound.File, in, 0, p.Stored.Offset)
		d.in.Until(p.Stored.Offset+p.Bytes, !d.bound.IsLast(p))
		return nil
	}
	in := &chunkReader{chunk: chunk, left: int(p.Stored.Length)}
	if d.unpacked == nil {
		d.unpacked = records.NewUnpacked(d.bound.Codec, in, p.Stored.Offset, d.bound.Limits, d.memory.Take)
	} else {
		d.unpacked.Reset(in, p.Stored.Offset)
	}
	d.unpacked.Part(p, d.bound.IsLast(p))
	if n, err := io.CopyN(io.Discard, d.unpacked, p.Skip); err != nil {
		return fmt.Errorf("of %d bytes in front of its rows there are %d: %w", p.Skip, n, noEOF(err))
	}
	d.rows = records.NewBuffered(io.LimitReader(d.unpacked, p.Bytes+max(1, d.bound.Ahead())), d.grow)
	d.in = records.NewStream(d.bound.File, d.rows, p.Stored.Offset, p.Skip)
	d.in.Until(p.Skip+p.Bytes, !d.bound.IsLast(p))
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// grow is the memory that records are decompressed into, which the next extent uses again. What buf holds lies there.
func (d *Decoder) grow(buf []byte, n int) (_ []byte, err error) {
	d.buffer, err = decode.Grow(&d.memory, d.buffer[:len(buf)], n)
	return d.buffer, err
}

// Skip passes over rows.
func (d *Decoder) Skip(rows int) error {
	return d.advance(rows, func([]byte, int64) error { return nil })
}

// Faults are the rows of the window that have something wrong in them, which are null.
func (d *Decoder) Faults() []decode.Fault { return d.faults }

// Next returns vectors of the next rows, one for each source. They are valid until the next call of Next or Skip.
func (d *Decoder) Next(rows int) ([]*vector.Vector, error) {
	clear(d.faults)
	d.faults, d.window = d.faults[:0], 0
	for _, c := range d.columns {
		if c != nil {
			c.begin()
		}
	}
	err := d.advance(rows, d.take)
	if err != nil {
		return nil, err
	}
	return d.out, d.show(rows)
}

// take adds a record to the columns. What is wrong with it is a fault of its row. If the row cannot end, that is not
// the record's fault, and some columns may have ended it: so the extent fails.
func (d *Decoder) take(record []byte, at int64) error {
	err := d.parse.Parse(record, d.columns)
	if err == nil {
		return d.endRow()
	}
	err = fmt.Errorf("record at %s: %w", d.in.Byte(at), err)
	if len(d.faults) == maxFaults {
		return err
	}
	for _, c := range d.columns {
		if c != nil && c.fatal != nil {
			return err
		}
	}
	d.faults = append(d.faults, decode.Fault{Row: d.window, Err: err})
	for i, c := range d.columns {
		if c == nil {
			continue
		}
		c.undo()
		if err := c.Null(); err != nil {
			return d.of(i, err)
		}
	}
	return d.endRow()
}

func (d *Decoder) endRow() error {
	for i, c := range d.columns {
		if c == nil {
			continue
		}
		if err := c.endRow(); err != nil {
			return d.of(i, err)
		}
	}
	d.window++
	return nil
}

// of says to which feature an error belongs.
func (d *Decoder) of(source int, err error) error {
	return fmt.Errorf("feature %s: %w", d.sources[source].GetName(), err)
}

func (d *Decoder) show(rows int) (err error) {
	for i, c := range d.columns {
		if c != nil {
			d.out[i] = c.show()
		} else if d.out[i], err = d.readers[i].Read(rows); err != nil {
			d.err = err
			return d.of(i, err)
		}
	}
	return nil
}

// advance has f take rows, and keeps its error: an extent that failed stays failed.
func (d *Decoder) advance(rows int, f func(record []byte, at int64) error) (err error) {
	if d.err != nil {
		return d.err
	}
	if rows < 0 || rows > d.rowsLeft {
		return fmt.Errorf("%d rows wanted of an extent with %d left", rows, d.rowsLeft)
	}
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	for range rows {
		record, at, err := d.in.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("there are no more than %d rows in front of %s: %w", d.row, d.in.Byte(d.in.At()),
				records.ErrIndex)
		}
		if err == nil {
			err = d.belongs(at)
		}
		if err == nil {
			err = f(record, at)
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", d.row, err)
		}
		d.row++
		d.rowsLeft--
	}
	if d.rowsLeft == 0 && rows > 0 {
		return d.atEnd()
	}
	return nil
}

// belongs fails if the rule by which files are cut would not have a record in this extent: all but the first extent
// begin with a record, and one that begins behind the length of an extent begins the next one.
func (d *Decoder) belongs(at int64) error {
	begin := d.place.Skip
	if d.bound.Codec == records.Plain {
		begin = d.place.Stored.Offset
	}
	switch first := d.row == d.place.FirstRow; {
	case first && d.place.Index > 0 && at != begin:
		return fmt.Errorf("the extent does not begin with it, but with what stands in front of it: %w",
			records.ErrIndex)
	case !first && d.bound.Codec == records.Plain && at-begin >= d.bound.Limits.Extent:
		return fmt.Errorf("the extent is longer than the rule has it: %w", records.ErrIndex)
	}
	return nil
}

// atEnd fails if the extent has more rows than the index says.
func (d *Decoder) atEnd() error {
	_, at, err := d.in.Next()
	switch {
	case err == nil:
		return fmt.Errorf("behind row %d there is another one, at %s: %w", d.row-1, d.in.Byte(at), records.ErrIndex)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("behind row %d: %w", d.row-1, err)
	case d.bound.Codec == records.Plain:
		return nil
	}
	return d.goesOn()
}

// goesOn fails if the next extent does not begin where the one that was read ends.
func (d *Decoder) goesOn() error {
	data, end, err := d.rows.Peek(1)
	if err != nil {
		return err
	}
	begins := d.unpacked.GoesOn(end && len(data) == 0)
	if !begins {
		return fmt.Errorf("behind row %d there are bytes that no extent has: %w", d.row-1, records.ErrIndex)
	}
	return nil
}

// blame says what was being decoded.
func (d *Decoder) blame(err *error) {
	if errors.Is(*err, records.ErrIndex) {
		*err = fmt.Errorf("%w%s", *err, d.bound.IndexAdvice(d.file))
	}
	if *err != nil {
		*err = fmt.Errorf("%s extent %d: %w", d.file, d.extent, *err)
	}
}

// Explain says, source by source, how an extent is read: "gzip, int64".
func (d *Decoder) Explain(b format.Bound, _ int) ([]string, error) {
	bound, ok := b.(*records.Bound)
	if !ok {
		return nil, errors.New("it is no file of records")
	}
	out := make([]string, len(d.sources))
	for i, how := range bound.Access {
		switch how {
		case format.Absent:
			out[i] = "absent from the file"
		case format.Nulls:
			out[i] = "nulls without a type"
		default:
			out[i] = bound.Codec.String() + " " + bound.Format()
		}
	}
	return out, nil
}

// inChunk is the Bytes of a chunk that is not compressed.
type inChunk struct {
	chunk    decode.Source
	at, left int
}

func (c *inChunk) Peek(n int) ([]byte, bool, error) {
	n = min(n, c.left)
	data, err := c.chunk.Bytes(c.at, n)
	if err != nil {
		return nil, false, err
	}
	data = data[:min(len(data), c.left)]
	return data, len(data) == c.left, nil
}

func (c *inChunk) Pass(n int) { c.at, c.left = c.at+n, c.left-n }

// chunkReader reads a chunk.
type chunkReader struct {
	chunk    decode.Source
	at, left int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), c.left)
	data, err := c.chunk.Bytes(c.at, n)
	if err != nil {
		return 0, err
	}
	copy(p, data[:n])
	c.at, c.left = c.at+n, c.left-n
	return n, nil
}
