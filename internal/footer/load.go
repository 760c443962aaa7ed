package footer

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
	trailer        = 8         // the footer's length and the magic
	minFile        = 12        // magic, trailer
	firstRead      = 64 << 10  // holds most footers
	maxFooter      = 256 << 20 // bytes
)

// Load reads a file's footer, with the profile's keys if it is encrypted. It fails if the file is not Parquet, if the key
// of an encrypted footer is missing, or if a column chunk does not lie inside the file; the error names the file.
func Load(ctx context.Context, st storage.Storage, profile string, f *pb.File) (*Footer, error) {
	return LoadWithin(ctx, st, profile, f, nil)
}

// LoadWithin is Load where memory is bounded: take is asked for it before it is used, unless it is little, and may refuse. What was
// taken beyond the footer's Size is free again afterwards.
func LoadWithin(ctx context.Context, st storage.Storage, profile string, f *pb.File, take func(int64) error) (*Footer, error) {
	if take == nil {
		take = func(int64) error { return nil }
	}
	data, encrypted, err := fetch(ctx, st, profile, f, take)
	if err != nil {
		return nil, fmt.Errorf("footer of %s: %w", f.Uri, err)
	}
	footer, err := read(ctx, data, encrypted, st.Keys(profile), take)
	if err != nil {
		return nil, fmt.Errorf("footer of %s: %w", f.Uri, err)
	}
	if err := footer.checkChunks(f.Size - trailer - int64(len(data))); err != nil {
		return nil, fmt.Errorf("footer of %s: %w", f.Uri, err)
	}
	return footer, nil
}

// fetch reads a file's serialised FileMetaData: with its tail, if that holds it, else in a second read. It may be
// encrypted.
func fetch(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, take func(int64) error,
) (data []byte, encrypted bool, err error) {
	if f.Size < minFile {
		return nil, false, noParquet(f, nil, fmt.Sprintf("it has %d bytes", f.Size))
	}
	tail := make([]byte, min(f.Size, firstRead))
	if err := st.ReadAt(ctx, profile, f, tail, f.Size-int64(len(tail))); err != nil {
		return nil, false, err
	}
	end := len(tail) - trailer
	switch string(tail[end+4:]) {
	case magic:
	case magicEncrypted:
		encrypted = true
	default:
		return nil, false, noParquet(f, tail, fmt.Sprintf("it ends in %q, not %q", tail[end+4:], magic))
	}
	length := int64(binary.LittleEndian.Uint32(tail[end:]))
	switch {
	case length > f.Size-minFile:
		return nil, false, fmt.Errorf("it claims %d bytes of a file of %d: the file is damaged", length, f.Size)
	case length > maxFooter:
		return nil, false, fmt.Errorf("it has %d bytes; at most %d can be read", length, maxFooter)
	case length <= int64(end):
		return tail[end-int(length) : end], encrypted, nil
	}
	if err := take(length); err != nil {
		return nil, false, err
	}
	data = make([]byte, length)
	missing := length - int64(end)
	copy(data[missing:], tail)
	if err := st.ReadAt(ctx, profile, f, data[:missing], f.Size-trailer-length); err != nil {
		return nil, false, err
	}
	return data, encrypted, nil
}

// noParquet is the error of a file that is none, which says what to do if its name or its end is that of a text.
func noParquet(f *pb.File, tail []byte, why string) error {
	control := func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n", r) }
	if storage.IsText(f.GetUri()) || len(tail) > 0 && !bytes.ContainsFunc(tail, control) {
		why += "; " + storage.Convert
	}
	return fmt.Errorf("not a Parquet file: %s", why)
}

// checkChunks checks that all column chunks end before limit.
func (f *Footer) checkChunks(limit int64) error {
	for i, g := range f.RowGroups {
		for j := range g.Chunks {
			g.Chunks[j].forgetIndexes(limit)
			if c := &g.Chunks[j]; c.Length > 0 && c.Offset+c.Length > limit {
				return fmt.Errorf("row group %d, column %s: its bytes %d to %d do not lie inside the file: it is damaged",
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
		n += int64(len(c.Name)+len(c.Unsupported)) + stringsSize(c.Path)
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
