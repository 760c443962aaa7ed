package parquet

import (
	"context"
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
	trailer        = 8         // the footer's length and the magic
	minFile        = 12        // magic, trailer
	maxFooter      = 256 << 20 // bytes
)

// load reads a file's footer. As long as it is not known which columns are read, their chunks are not looked at, but
// the footer is kept as it is: whoever knows then need not read it again.
func load(ctx context.Context, in *format.Input) (*File, error) {
	var from stored
	if before, ok := in.Before.(*File); ok {
		from = before.stored
	}
	if from.data == nil {
		var err error
		if from, err = fetch(ctx, in); err != nil {
			return nil, err
		}
	}
	p := parser{
		secrets: secrets{ctx: ctx, keys: in.Storage.Keys(in.Profile)}, take: in.Take, want: wantOf(in),
		end: in.File.GetSize() - trailer - int64(len(from.data)),
	}
	footer, err := p.read(from.data, from.encrypted)
	if err != nil {
		return nil, err
	}
	f := NewFile(footer)
	if len(in.Sources) == 0 && footer.slots != nil {
		f.stored = from
	}
	return f, nil
}

// stored is a footer as its file has it: the serialised FileMetaData, which may be encrypted.
type stored struct {
	data      []byte
	encrypted bool
}

// fetch reads a file's footer: it is in the file's tail, or a second read brings it.
func fetch(ctx context.Context, in *format.Input) (out stored, err error) {
	tail, err := in.End(ctx)
	if err != nil {
		return out, err
	}
	size := in.File.GetSize()
	if size < minFile {
		return out, fmt.Errorf("the file has %d bytes, which is no Parquet: it is damaged", size)
	}
	end := len(tail) - trailer
	out.encrypted = string(tail[end+4:]) == magicEncrypted
	length := int64(binary.LittleEndian.Uint32(tail[end:]))
	switch {
	case length > size-minFile:
		return out, fmt.Errorf("it claims %d bytes of a file of %d: the file is damaged", length, size)
	case length > maxFooter:
		return out, fmt.Errorf("it has %d bytes; at most %d can be read", length, maxFooter)
	case length <= int64(end):
		out.data = tail[end-int(length) : end]
		return out, nil
	}
	if err := in.Take(length); err != nil {
		return out, err
	}
	out.data = make([]byte, length)
	missing := length - int64(end)
	copy(out.data[missing:], tail)
	return out, in.ReadAt(ctx, out.data[:missing], size-trailer-length)
}

// checkEnd checks that a chunk ends before limit, and forgets its page indexes if they do not.
func (c *Chunk) checkEnd(limit int64) error {
	c.forgetIndexes(limit)
	if c.Length > 0 && c.Offset+c.Length > limit {
		return fmt.Errorf("its bytes %d to %d do not lie inside the file: it is damaged", c.Offset, c.Offset+c.Length)
	}
	return nil
}

// size estimates the memory that f takes.
func (p *parser) size(f *Footer) int64 {
	n := int64(unsafe.Sizeof(*f)) + p.arena.total
	for i := range f.Schema.Columns {
		c := &f.Schema.Columns[i]
		n += int64(unsafe.Sizeof(*c)+unsafe.Sizeof(span{})) + 2*48 // its places in maps
		n += int64(len(c.Name)+len(c.Unsupported)+4*cap(c.Shape)) + stringsSize(c.Path)
	}
	for i := range f.Leaves {
		n += int64(unsafe.Sizeof(f.Leaves[i])) + stringsSize(f.Leaves[i].Path)
	}
	n += int64(8*cap(f.stored) + 4*cap(f.slots))
	for i := range f.RowGroups {
		n += int64(unsafe.Sizeof(RowGroup{})) + int64(len(f.RowGroups[i].Chunks))*int64(unsafe.Sizeof(Chunk{}))
	}
	return n
}

func stringsSize(list []string) int64 {
	n := int64(cap(list)) * int64(unsafe.Sizeof(""))
	for _, s := range list {
		n += int64(len(s))
	}
	return n
}
