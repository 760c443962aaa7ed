// Package arrow describes files of Arrow's IPC format, which Feather is, too: a record batch is an extent. Its worker's
// half is worker/formats/arrow.
//
// A file's footer says where its dictionaries and record batches are, and the header of each of these where its buffers
// are, so that a program's columns are all that is read. Nothing in a file is trusted: buffers lie inside their batch,
// or the file is damaged.
package arrow

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/arrowipc"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

const (
	magic = "ARROW1"
	// trailer is the footer's length and the magic, at a file's end.
	trailer = 4 + len(magic)
	// minFile is a file's magic at its front, with padding, and its trailer.
	minFile = 8 + trailer
	// maxFooter bounds a footer's bytes, and maxHeaders those of all batches' headers.
	maxFooter, maxHeaders = arrowipc.MaxHeader - 1<<10, 256 << 20
	// blockBytes is a footer's entry of a batch.
	blockBytes = 24
)

// Format is Arrow's IPC file format.
type Format struct{}

// Name is the format's.
func (Format) Name() string { return "Arrow" }

// Extensions are those of files' names.
func (Format) Extensions() []string { return []string{".arrow", ".feather", ".ipc"} }

// Claims reports whether a file ends as Arrow's do.
func (Format) Claims(ctx context.Context, in *format.Input) (bool, error) {
	tail, err := in.End(ctx)
	return bytes.HasSuffix(tail, []byte(magic)), err
}

// Describe reads a file's footer and the headers of its batches. It fails if one of these is not what it should be, or
// if a buffer does not lie inside its batch.
func (Format) Describe(ctx context.Context, in *format.Input) (format.File, error) {
	data, err := footer(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	root, ok := arrowipc.Root(data)
	if !ok {
		return nil, errors.New("footer: it is cut short: the file is damaged")
	}
	table, ok := root.Table(1)
	if !ok {
		return nil, errors.New("footer: it has no schema: the file is damaged")
	}
	schema, err := arrowipc.SchemaOf(table)
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	const v4, v5 = 3, 4 // of MetadataVersion
	if root.Byte(0) < v4 {
		return nil, errors.New(
			"footer: it is of a version before 0.8 of Arrow, which cannot be read: write the file again")
	}
	f := &File{dictionaries: map[int64][]*Batch{}}
	if f.layout, err = layoutOf(schema, table, root.Byte(0) >= v5); err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	f.columns = format.NewColumns(f.layout.columns)
	if err := f.read(ctx, in, root); err != nil {
		return nil, err
	}
	return f, nil
}

// Columns are those that a file of a schema has.
func Columns(of *arrow.Schema) (spec.Schema, error) {
	var stream bytes.Buffer
	if err := ipc.NewWriter(&stream, ipc.WithSchema(of)).Close(); err != nil {
		return spec.Schema{}, err
	}
	const prefix = 8 // of a message: a marker, and its length
	root, ok := arrowipc.Header(stream.Bytes()[prefix:], arrowipc.SchemaHeader)
	if !ok {
		return spec.Schema{}, errFields
	}
	l, err := layoutOf(of, root, true)
	if err != nil {
		return spec.Schema{}, err
	}
	return format.NewColumns(l.columns).Schema, nil
}

// footer reads a file's footer, a flatbuffer: it is in the tail, or another read brings it.
func footer(ctx context.Context, in *format.Input) ([]byte, error) {
	tail, err := in.End(ctx)
	if err != nil {
		return nil, err
	}
	size, end := in.File.GetSize(), len(tail)-trailer
	if size < int64(minFile) {
		return nil, fmt.Errorf("the file has %d bytes, which is no Arrow: it is damaged", size)
	}
	length := int64(int32(binary.LittleEndian.Uint32(tail[end:])))
	switch {
	case length <= 0 || length > size-int64(minFile):
		return nil, fmt.Errorf("it claims %d bytes of a file of %d: the file is damaged", length, size)
	case length > maxFooter:
		return nil, fmt.Errorf("it has %d bytes; at most %d can be read", length, maxFooter)
	case length <= int64(end):
		return tail[int64(end)-length : end], nil
	}
	if err := in.Take(length); err != nil {
		return nil, err
	}
	data := make([]byte, length)
	return data, in.ReadAt(ctx, data, size-int64(trailer)-length)
}

// read reads the headers of all batches that the footer lists.
func (f *File) read(ctx context.Context, in *format.Input, footer arrowipc.Table) error {
	var blocks []block
	var ranges []storage.Range
	for i, kind := range []string{"dictionary", "record batch"} {
		list, ok := footer.Structs(2+i, blockBytes)
		if !ok {
			return errors.New("footer: it is cut short: the file is damaged")
		}
		for n := range len(list) / blockBytes {
			b := blockAt(list[n*blockBytes:], fmt.Sprintf("%s %d", kind, n), i == 0)
			if err := b.check(in.File.GetSize()); err != nil {
				return err
			}
			blocks, ranges = append(blocks, b), append(ranges, b.header)
		}
	}
	if slices.Contains(storage.Overlaps(ranges), true) { // a short file would stand for very many batches
		return errors.New("footer: headers of batches lie on each other: the file is damaged")
	}
	data, err := readHeaders(ctx, in, ranges)
	if err != nil {
		return err
	}
	for i, b := range blocks {
		if err := f.add(b, data[i]); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return f.finish()
}

func readHeaders(ctx context.Context, in *format.Input, ranges []storage.Range) ([][]byte, error) {
	return storage.ReadRanges(ctx, in.Storage, in.Profile, in.File, ranges, storage.Reading{},
		func(size int64) ([]byte, error) {
			if size > maxHeaders {
				return nil, fmt.Errorf(
					"the batches' headers have %d bytes; at most %d can be read: write larger record batches",
					size, maxHeaders)
			}
			if err := in.Take(2 * size); err != nil { // and what is made of them
				return nil, err
			}
			return make([]byte, size), nil
		})
}

// block is where a batch is.
type block struct {
	name         string // "record batch 3"
	isDictionary bool
	header, body storage.Range
}

// blockAt reads a footer's entry.
func blockAt(b []byte, name string, isDictionary bool) block {
	le := binary.LittleEndian
	offset, header := int64(le.Uint64(b)), int64(int32(le.Uint32(b[8:])))
	return block{
		name: name, isDictionary: isDictionary,
		header: storage.Range{Offset: offset, Length: header},
		body:   storage.Range{Offset: offset + header, Length: int64(le.Uint64(b[16:]))},
	}
}

func (b *block) check(size int64) error {
	h := b.header
	if h.Offset < 0 || h.Length < 0 || h.Length > arrowipc.MaxHeader || h.Offset > size-h.Length ||
		b.body.Length < 0 || b.body.Offset > size-b.body.Length {
		return fmt.Errorf("footer: %s: its bytes do not lie inside the file: it is damaged", b.name)
	}
	return nil
}
