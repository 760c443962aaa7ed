package parquet

import (
	"bytes"
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Format is Parquet.
type Format struct{}

// Name is the format's.
func (Format) Name() string { return "Parquet" }

// Extensions are those of files' names.
func (Format) Extensions() []string { return []string{".parquet", ".parq", ".pq"} }

// Claims reports whether a file ends as Parquet does.
func (Format) Claims(ctx context.Context, in *format.Input) (bool, error) {
	tail, err := in.End(ctx)
	return bytes.HasSuffix(tail, []byte(magic)) || bytes.HasSuffix(tail, []byte(magicEncrypted)), err
}

// Describe reads a file's footer, with the profile's keys if it is encrypted. It fails if the key of an encrypted
// footer is missing, or if a column chunk does not lie inside the file.
func (Format) Describe(ctx context.Context, in *format.Input) (format.File, error) {
	f, err := load(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	return f, nil
}

// File is a footer as the description of its file: each row group is an extent.
type File struct {
	Footer  *Footer
	extents []format.Extent
	stored  stored // without data where it is known which columns are read
}

// NewFile returns the description that a footer is.
func NewFile(f *Footer) *File {
	file := &File{Footer: f, extents: make([]format.Extent, len(f.RowGroups))}
	for i, g := range f.RowGroups {
		file.extents[i] = format.Extent{Rows: g.Rows, FirstRow: g.FirstRow}
	}
	return file
}

// Format is the name of the file's format.
func (f *File) Format() string { return Format{}.Name() }

// Columns are the file's.
func (f *File) Columns() *format.Columns { return &f.Footer.Columns }

// Extents are the row groups.
func (f *File) Extents() []format.Extent { return f.extents }

// Stored is how many bytes the column chunks of a column have.
func (f *File) Stored(column int) (n int64) {
	for leaf := range f.Footer.leaves(column) {
		n += f.Footer.stored[leaf]
	}
	return n
}

// Extent is what an extent is called.
func (f *File) Extent() string { return "row group" }

// Bind finds sources in the file.
func (f *File) Bind(sources []*pb.Source) (format.Bound, error) {
	b, err := f.Footer.Bind(sources)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Knows reports whether sources can be bound.
func (f *File) Knows(sources []*pb.Source) bool { return f.Footer.Knows(sources) }

// Size is the memory that the footer takes.
func (f *File) Size() int64 { return f.Footer.Size + int64(len(f.stored.data)) }
