package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/arrowipc"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// File describes a file.
type File struct {
	columns      format.Columns
	layout       *layout
	batches      []*Batch
	dictionaries map[int64][]*Batch // by their ids: the parts of each, one after the other
	extents      []format.Extent
	size         int64
}

// Batch is a record batch, or a part of a dictionary: where its buffers are.
type Batch struct {
	Rows    int64
	Codec   Codec
	Lengths []int64         // of its arrays, depth first
	Buffers []storage.Range // of the file, depth first
}

// Codec compresses buffers, each by itself.
type Codec uint8

// The codecs.
const (
	Uncompressed Codec = iota
	LZ4                // frames
	Zstd
)

// String is the codec's name.
func (c Codec) String() string { return [...]string{"uncompressed", "lz4", "zstd"}[c] }

var errHeader = errors.New("its header is not that of a batch of the file's schema: the file is damaged")

// add reads a batch's header.
func (f *File) add(b block, data []byte) error {
	message, err := unframe(data)
	if err != nil {
		return err
	}
	if !b.isDictionary {
		header, ok := arrowipc.Header(message, arrowipc.RecordBatch)
		if !ok {
			return errHeader
		}
		batch, err := batchOf(header, b.body, f.layout.shape)
		if err == nil {
			f.batches = append(f.batches, batch)
		}
		return err
	}
	header, ok := arrowipc.Header(message, arrowipc.DictionaryBatch)
	if !ok {
		return errHeader
	}
	id := header.Int64(0)
	shape, known := f.layout.dictionaries[id]
	values, ok := header.Table(1)
	if !ok || !known {
		return errHeader
	}
	batch, err := batchOf(values, b.body, shape)
	if err != nil {
		return err
	}
	if delta := header.Byte(2) != 0; !delta && len(f.dictionaries[id]) > 0 {
		return fmt.Errorf("dictionary %d is there twice: the file is damaged", id)
	}
	if len(f.dictionaries[id]) == maxParts {
		return fmt.Errorf("dictionary %d has more than %d parts, which is more than can be read: write the file again",
			id, maxParts)
	}
	f.dictionaries[id] = append(f.dictionaries[id], batch)
	return nil
}

// maxParts bounds the parts of a dictionary, which are read for each record batch.
const maxParts = 10_000

// unframe is a message without what stands in front of it: its length, after a mark that older writers left out.
func unframe(data []byte) ([]byte, error) {
	const mark = 0xffffffff
	if len(data) >= 4 && binary.LittleEndian.Uint32(data) == mark {
		data = data[4:]
	}
	if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
		return nil, errHeader
	}
	return data[4:][:binary.LittleEndian.Uint32(data)], nil
}

// batchOf reads a RecordBatch of a shape, whose buffers lie in a body.
func batchOf(t arrowipc.Table, body storage.Range, of shape) (*Batch, error) {
	arrays, buffers := of.arrays, of.buffers
	nodes, okNodes := t.Structs(1, 16)
	ranges, okRanges := t.Structs(2, 16)
	ranges, okViews := of.withoutViews(t, ranges)
	b := &Batch{Rows: t.Int64(0)}
	if !okNodes || !okRanges || !okViews || len(nodes) != 16*arrays || len(ranges) != 16*buffers || b.Rows < 0 ||
		b.Rows > math.MaxInt32 {
		return nil, errHeader
	}
	if c, ok := t.Table(3); ok {
		if c.Byte(0) > 1 || c.Byte(1) != 0 {
			return nil, fmt.Errorf("it is compressed in a way that cannot be read (codec %d, method %d)",
				c.Byte(0), c.Byte(1))
		}
		b.Codec = []Codec{LZ4, Zstd}[c.Byte(0)]
	}
	le := binary.LittleEndian
	b.Lengths, b.Buffers = make([]int64, arrays), make([]storage.Range, buffers)
	for i := range b.Lengths {
		b.Lengths[i] = int64(le.Uint64(nodes[16*i:]))
		if b.Lengths[i] < 0 || b.Lengths[i] > math.MaxInt32 {
			return nil, fmt.Errorf("array %d has %d values: the file is damaged", i, b.Lengths[i])
		}
	}
	for i := range b.Buffers {
		offset, length := int64(le.Uint64(ranges[16*i:])), int64(le.Uint64(ranges[16*i+8:]))
		if offset < 0 || length < 0 || offset > body.Length || length > body.Length-offset {
			return nil, fmt.Errorf("buffer %d has %d bytes at %d of a batch of %d: the file is damaged",
				i, length, offset, body.Length)
		}
		b.Buffers[i] = storage.Range{Offset: body.Offset + offset, Length: length}
	}
	return b, nil
}

// withoutViews leaves out of buffers those that arrays of views have beyond two each, as many as the batch says. So
// buffers have the numbers that the schema gives them.
func (s shape) withoutViews(t arrowipc.Table, buffers []byte) ([]byte, bool) {
	counts, ok := t.Int64s(4)
	if len(s.views) == 0 || !ok || len(counts) != len(s.views) {
		return buffers, ok && len(counts) == len(s.views)
	}
	out, from := make([]byte, 0, len(buffers)), 0
	for i, at := range s.views {
		to := from + 16*at - len(out)
		if counts[i] < 0 || to < from || to > len(buffers) || counts[i] > int64(len(buffers)-to)/16 {
			return nil, false
		}
		out = append(out, buffers[from:to]...)
		from = to + 16*int(counts[i])
	}
	return append(out, buffers[from:]...), true
}

// finish makes the extents of the batches that were read.
func (f *File) finish() error {
	for id := range f.layout.dictionaries {
		if len(f.dictionaries[id]) == 0 && len(f.batches) > 0 {
			return fmt.Errorf("dictionary %d is missing: the file is damaged", id)
		}
	}
	rows := int64(0)
	for _, b := range f.batches {
		f.extents = append(f.extents, format.Extent{Rows: b.Rows, FirstRow: rows})
		rows += b.Rows
	}
	f.size = int64(unsafe.Sizeof(*f)) + f.layout.size
	for _, b := range f.batches {
		f.size += b.size()
	}
	for _, parts := range f.dictionaries {
		for _, b := range parts {
			f.size += b.size()
		}
	}
	return nil
}

func (b *Batch) size() int64 {
	return int64(unsafe.Sizeof(*b)+unsafe.Sizeof(format.Extent{})) + 8*int64(cap(b.Lengths)) +
		int64(unsafe.Sizeof(storage.Range{}))*int64(cap(b.Buffers))
}

// Format is the name of the file's format.
func (f *File) Format() string { return Format{}.Name() }

// Columns are the file's.
func (f *File) Columns() *format.Columns { return &f.columns }

// Extents are the record batches.
func (f *File) Extents() []format.Extent { return f.extents }

// Extent is what an extent is called.
func (f *File) Extent() string { return "record batch" }

// Size is the memory that the description takes.
func (f *File) Size() int64 { return f.size }

// Stored is how many bytes the buffers of a column have.
func (f *File) Stored(column int) (n int64) {
	span := f.layout.spans[column]
	for _, b := range f.batches {
		for i := span.from; i < span.to; i++ {
			n += b.Buffers[i].Length
		}
	}
	for _, a := range f.layout.arraysOf[column] {
		if a.Index != nil {
			n += stored(f.dictionaries[a.ID])
		}
	}
	return n
}

// stored is how many bytes the parts of a dictionary have in the file.
func stored(parts []*Batch) (n int64) {
	for _, p := range parts {
		for _, r := range p.Buffers {
			n += r.Length
		}
	}
	return n
}

// Knows reports that any sources can be bound.
func (f *File) Knows([]*pb.Source) bool { return true }

// Bind finds sources in the file.
func (f *File) Bind(sources []*pb.Source) (format.Bound, error) {
	b := &Bound{File: f, Sources: sources, Bindings: make([]Binding, len(sources))}
	for i, s := range sources {
		how, column, err := f.columns.Find(s)
		if err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		b.Bindings[i] = Binding{Access: how}
		if how.Stored() {
			b.Bindings[i].Arrays = f.layout.arraysOf[column]
		}
	}
	b.findBuffers()
	return b, nil
}
