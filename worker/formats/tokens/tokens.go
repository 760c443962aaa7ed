// Package tokens decodes documents of token ids, as internal/formats/tokens found them, into vectors, window by window.
// Tokens lie in the file as they do in vectors, or are made wider. A Decoder belongs to one goroutine.
package tokens

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/tokens"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Decoder decodes the sources of a program from one extent after another.
type Decoder struct {
	sources []*pb.Source
	memory  decode.Allowance
	bound   *tokens.Bound // nil: it is forgotten
	readers []decode.Reader
	vectors []vector.Vector
	out     []*vector.Vector

	file     string
	extent   int
	chunk    decode.Source
	at       int   // of the chunk, that comes next
	row      int64 // of the file, that comes next
	rowsLeft int64
	err      error // that ended the extent
}

var errNoExtent = errors.New("tokens: decoder without an extent")

// NewDecoder returns a decoder of sources.
func NewDecoder(sources []*pb.Source) *Decoder {
	return &Decoder{
		sources: sources, readers: make([]decode.Reader, len(sources)), vectors: make([]vector.Vector, len(sources)),
		out: make([]*vector.Vector, len(sources)), err: errNoExtent,
	}
}

// Memory is what the decoder may hold.
func (d *Decoder) Memory() *decode.Allowance { return &d.memory }

// Forget gives up the last file, and all memory.
func (d *Decoder) Forget() {
	d.bound, d.chunk, d.err = nil, nil, errNoExtent
	clear(d.readers)
	clear(d.vectors)
	clear(d.out)
	d.memory.Give(d.memory.Held())
}

// Reset begins an extent of a file, whose URI is for messages. There is one chunk, if tokens are read.
func (d *Decoder) Reset(file string, b format.Bound, extent int, chunks []decode.Source) (err error) {
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	d.file, d.extent = file, extent
	bound, ok := b.(*tokens.Bound)
	if !ok || extent < 0 || extent >= len(bound.Extents()) || len(chunks) != bound.Chunks() {
		return errors.New("it is no extent of a file of tokens")
	}
	if d.bound != bound {
		if err := d.bind(bound); err != nil {
			return err
		}
	}
	if d.chunk = nil; len(chunks) > 0 {
		d.chunk = chunks[0]
	}
	e := bound.Extents()[extent]
	d.at, d.row, d.rowsLeft = 0, e.FirstRow, e.Rows
	return nil
}

func (d *Decoder) bind(b *tokens.Bound) (err error) {
	d.Forget()
	for i, s := range b.Sources {
		d.vectors[i].Type = spec.TypeFromProto(s.GetType())
		switch b.Bindings[i].Access {
		case format.Absent:
			d.readers[i], err = decode.NewConstant(s.GetType(), s.GetDefault(), &d.memory)
		case format.Nulls:
			d.readers[i], err = decode.NewConstant(s.GetType(), nil, &d.memory)
		}
		if err != nil {
			return fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
	}
	d.bound = b
	return nil
}

// Skip passes over rows.
func (d *Decoder) Skip(rows int) error {
	return d.advance(rows, func([]int32, int) error { return nil })
}

// Next returns vectors of the next rows, one for each source. They are valid until the next call of Next or Skip.
func (d *Decoder) Next(rows int) ([]*vector.Vector, error) {
	if err := d.advance(rows, d.fill); err != nil {
		return nil, err
	}
	return d.out, nil
}

// advance has f make rows, whose lengths and tokens it is told, and keeps its error.
func (d *Decoder) advance(rows int, f func(lengths []int32, tokens int) error) (err error) {
	if d.err != nil {
		return d.err
	}
	if rows < 0 || int64(rows) > d.rowsLeft {
		return fmt.Errorf("%d rows wanted of an extent with %d left", rows, d.rowsLeft)
	}
	defer func() { d.err = err }()
	defer d.blame(&err)
	defer rescue.As(&err, rescue.Decoder)
	lengths, n := d.bound.Lengths(d.row, int64(rows)), 0
	for _, length := range lengths {
		if n += int(length); n > math.MaxInt32 {
			return fmt.Errorf("a window with more than %d tokens", math.MaxInt32)
		}
	}
	if err := f(lengths, n); err != nil {
		return err
	}
	d.at += n * spec.Width(d.bound.Kind())
	d.row, d.rowsLeft = d.row+int64(rows), d.rowsLeft-int64(rows)
	return nil
}

// fill makes the vectors of a window.
func (d *Decoder) fill(lengths []int32, n int) (err error) {
	var data []byte
	if d.chunk != nil && n > 0 {
		if data, err = d.chunk.Bytes(d.at, n*spec.Width(d.bound.Kind())); err != nil {
			return err
		}
		data = data[:n*spec.Width(d.bound.Kind())]
	}
	for i := range d.sources {
		switch at := d.bound.Bindings[i]; {
		case !at.Stored():
			d.out[i], err = d.readers[i].Read(len(lengths))
		case at.Tokens:
			d.out[i], err = d.tokens(&d.vectors[i], lengths, data)
		default:
			d.out[i], err = d.documents(&d.vectors[i], len(lengths))
		}
		if err != nil {
			return fmt.Errorf("feature %s: %w", d.sources[i].GetName(), err)
		}
	}
	return nil
}

func (d *Decoder) documents(v *vector.Vector, rows int) (_ *vector.Vector, err error) {
	if v.I64, err = decode.Grow(&d.memory, v.I64[:0], rows); err != nil {
		return nil, err
	}
	v.Rows, v.I64 = rows, v.I64[:rows]
	for i := range v.I64 {
		v.I64[i] = d.bound.Document(d.row + int64(i))
	}
	return v, nil
}

func (d *Decoder) tokens(v *vector.Vector, lengths []int32, data []byte) (_ *vector.Vector, err error) {
	if v.Offsets, err = decode.Grow(&d.memory, v.Offsets[:0], len(lengths)+1); err != nil {
		return nil, err
	}
	v.Rows, v.Offsets = len(lengths), v.Offsets[:len(lengths)+1]
	v.Offsets[0] = 0
	for i, length := range lengths {
		v.Offsets[i+1] = v.Offsets[i] + length
	}
	from := d.bound.Kind()
	n := len(data) / spec.Width(from)
	switch kind := v.Type.Kind; {
	case spec.Small(kind):
		if v.Small, err = decode.Grow(&d.memory, v.Small[:0], len(data)); err == nil {
			v.Small = v.Small[:copy(v.Small[:len(data)], data)]
		}
	case kind == pb.Kind_INT32:
		if v.I32, err = decode.Grow(&d.memory, v.I32[:0], n); err == nil {
			v.I32 = v.I32[:n]
			widen(v.I32, data, from)
		}
	default:
		if v.I64, err = decode.Grow(&d.memory, v.I64[:0], n); err == nil {
			v.I64 = v.I64[:n]
			widen(v.I64, data, from)
		}
	}
	return v, err
}

// widen makes integers of those that lie in a file.
func widen[T int32 | int64](dst []T, src []byte, from pb.Kind) {
	le := binary.LittleEndian
	switch from {
	case pb.Kind_UINT8:
		for i := range dst {
			dst[i] = T(src[i])
		}
	case pb.Kind_INT8:
		for i := range dst {
			dst[i] = T(int8(src[i]))
		}
	case pb.Kind_UINT16:
		for i := range dst {
			dst[i] = T(le.Uint16(src[2*i:]))
		}
	case pb.Kind_INT16:
		for i := range dst {
			dst[i] = T(int16(le.Uint16(src[2*i:])))
		}
	case pb.Kind_UINT32:
		for i := range dst {
			dst[i] = T(le.Uint32(src[4*i:]))
		}
	case pb.Kind_INT32:
		for i := range dst {
			dst[i] = T(int32(le.Uint32(src[4*i:])))
		}
	default:
		for i := range dst {
			dst[i] = T(le.Uint64(src[8*i:]))
		}
	}
}

// blame says what was being decoded.
func (d *Decoder) blame(err *error) {
	if *err != nil {
		*err = fmt.Errorf("%s extent %d: %w", d.file, d.extent, *err)
	}
}

// Explain says, source by source, how an extent is read.
func (d *Decoder) Explain(b format.Bound, _ int) ([]string, error) {
	bound, ok := b.(*tokens.Bound)
	if !ok {
		return nil, errors.New("it is no file of tokens")
	}
	out := make([]string, len(d.sources))
	for i, at := range bound.Bindings {
		switch {
		case at.Access == format.Absent:
			out[i] = "absent from the file"
		case !at.Stored():
			out[i] = "nulls without a type"
		case at.Tokens:
			out[i] = "plain, " + spec.KindName(bound.Kind())
		default:
			out[i] = "of the index"
		}
	}
	return out, nil
}
