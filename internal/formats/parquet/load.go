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

// load reads a file's footer.
func load(ctx context.Context, in *format.Input) (*Footer, error) {
	data, encrypted, err := fetch(ctx, in)
	if err != nil {
		return nil, err
	}
	footer, err := read(ctx, data, encrypted, in.Storage.Keys(in.Profile), in.Take)
	if err != nil {
		return nil, err
	}
	return footer, footer.checkChunks(in.File.GetSize() - trailer - int64(len(data)))
}

// fetch reads a file's serialised FileMetaData: it is in the file's tail, or a second read brings it. It may be
// encrypted.
func fetch(ctx context.Context, in *format.Input) (data []byte, encrypted bool, err error) {
	size, tail := in.File.GetSize(), in.Tail
	if size < minFile {
		return nil, false, fmt.Errorf("the file has %d bytes, which is no Parquet: it is damaged", size)
	}
	end := len(tail) - trailer
	encrypted = string(tail[end+4:]) == magicEncrypted
	length := int64(binary.LittleEndian.Uint32(tail[end:]))
	switch {
	case length > size-minFile:
		return nil, false, fmt.Errorf("it claims %d bytes of a file of %d: the file is damaged", length, size)
	case length > maxFooter:
		return nil, false, fmt.Errorf("it has %d bytes; at most %d can be read", length, maxFooter)
	case length <= int64(end):
		return tail[end-int(length) : end], encrypted, nil
	}
	if err := in.Take(length); err != nil {
		return nil, false, err
	}
	data = make([]byte, length)
	missing := length - int64(end)
	copy(data[missing:], tail)
	if err := in.ReadAt(ctx, data[:missing], size-trailer-length); err != nil {
		return nil, false, err
	}
	return data, encrypted, nil
}

// checkChunks checks that all column chunks end before limit.
func (f *Footer) checkChunks(limit int64) error {
	for i, g := range f.RowGroups {
		for j := range g.Chunks {
			g.Chunks[j].forgetIndexes(limit)
			if c := &g.Chunks[j]; c.Length > 0 && c.Offset+c.Length > limit {
				return fmt.Errorf(
					"row group %d, column %s: its bytes %d to %d do not lie inside the file: it is damaged",
					i, quoted(f.Leaves[j].Path), c.Offset, c.Offset+c.Length)
			}
		}
	}
	return nil
}

// size estimates the memory that f takes.
func (p *parser) size(f *Footer) int64 {
	n := int64(unsafe.Sizeof(*f)) + p.arena.total
	for i := range f.Schema.Columns {
		c := &f.Schema.Columns[i]
		n += int64(unsafe.Sizeof(*c)+unsafe.Sizeof(span{})) + 48 // its place in byName
		n += int64(len(c.Name)+len(c.Unsupported)+4*cap(c.Shape)) + stringsSize(c.Path)
	}
	for i := range f.Leaves {
		n += int64(unsafe.Sizeof(f.Leaves[i])) + stringsSize(f.Leaves[i].Path)
	}
	n += int64(len(f.RowGroups)) * int64(unsafe.Sizeof(RowGroup{})+uintptr(len(f.Leaves))*unsafe.Sizeof(Chunk{}))
	return n
}

func stringsSize(list []string) int64 {
	n := int64(cap(list)) * int64(unsafe.Sizeof(""))
	for _, s := range list {
		n += int64(len(s))
	}
	return n
}
