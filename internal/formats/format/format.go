// Package format says what planning and reading need to know of a file, whatever its format: its schema, and its
// extents, which are runs of whole rows with what it takes to read them. Package formats, above, finds the format of a
// file; a folder beside this one describes the files of one format, and a folder of worker/formats decodes them.
// Everything that describes a file is immutable, and may be used by many goroutines at once.
package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Format is a file format.
type Format interface {
	// Name is the format's, as messages have it: "Parquet".
	Name() string
	// Extensions are those of files' names, in lower case: ".parquet". A directory's listing takes such files.
	Extensions() []string
	// Claims reports whether a file is of this format by its name, or by its first or last bytes.
	Claims(ctx context.Context, f *Input) (bool, error)
	// Describe reads what a file says of itself. It fails if what it says cannot be; the error need not name the file.
	Describe(ctx context.Context, f *Input) (File, error)
}

// Tail is how many bytes of a file's end are read before its format is known, or all that there are: they hold most
// descriptions. Head is how many of its front are, of formats that are known by it.
const (
	Tail = 64 << 10
	Head = 256 << 10
)

// Input is a file that is to be described.
type Input struct {
	Storage storage.Storage
	Profile string // of the storage
	File    *pb.File
	// How the file is read, where its dataset says so.
	How *pb.Format
	// Sources are what is going to be read of the file: the rest of it need not be bound. All: anything may be read.
	// Neither: it is not known yet what is.
	Sources []*pb.Source
	All     bool
	// Before is an earlier description of the file; what it knows is known in this one, too. Nil: there is none.
	Before File
	// Take asks for memory before it is used, unless it is little. What was taken beyond the description's Size is free
	// again afterwards.
	Take func(bytes int64) error

	head, end []byte // nil: not read yet
	front     *Front // nil: not decompressed yet
}

// Front is what a file's first bytes have, decompressed.
type Front struct {
	Data  []byte
	Whole bool  // it is all of the file
	Err   error // it cannot be decompressed
}

// Front returns what unpack makes of the file's first bytes, which are all of it if whole is set. It does so once.
func (f *Input) Front(
	ctx context.Context, unpack func(head []byte, whole bool) (*Front, error),
) (front *Front, err error) {
	if f.front != nil {
		return f.front, nil
	}
	head, err := f.Head(ctx)
	if err != nil {
		return nil, err
	}
	f.front, err = unpack(head, int64(len(head)) == f.File.GetSize())
	return f.front, err
}

// Ask is Take, if there is one.
func (f *Input) Ask(bytes int64) error {
	if f.Take == nil {
		return nil
	}
	return f.Take(bytes)
}

// Head returns the file's first bytes: as many as the constant says, or all that there are.
func (f *Input) Head(ctx context.Context) ([]byte, error) {
	if f.head != nil {
		return f.head, nil
	}
	n := min(f.File.GetSize(), Head)
	if err := f.Ask(n); err != nil {
		return nil, err
	}
	head := make([]byte, n)
	if err := f.ReadAt(ctx, head, 0); err != nil {
		return nil, err
	}
	f.head = head
	return head, nil
}

// End returns the file's last bytes: as many as Tail, or all that there are.
func (f *Input) End(ctx context.Context) ([]byte, error) {
	if f.end != nil {
		return f.end, nil
	}
	end := make([]byte, min(f.File.GetSize(), Tail))
	if err := f.ReadAt(ctx, end, f.File.GetSize()-int64(len(end))); err != nil {
		return nil, err
	}
	f.end = end
	return end, nil
}

// ReadAt fills buf from an offset of the file. What is long is read in parts, in parallel.
func (f *Input) ReadAt(ctx context.Context, buf []byte, offset int64) error {
	_, err := storage.ReadRanges(ctx, f.Storage, f.Profile, f.File,
		[]storage.Range{{Offset: offset, Length: int64(len(buf))}}, storage.Reading{},
		func(int64) ([]byte, error) { return buf, nil })
	return err
}

// streamBytes is how much a Reader reads at once, in parts of partBytes, in parallel.
const (
	streamBytes = 8 << 20
	partBytes   = 1 << 20
)

// Reader reads the file from its front to its end.
func (f *Input) Reader(ctx context.Context) io.Reader {
	if f.Whole() {
		return bytes.NewReader(f.head)
	}
	return f.ReaderFrom(ctx, 0, streamBytes)
}

// ReaderFrom reads the file from a byte to its end, so many bytes at once at most.
func (f *Input) ReaderFrom(ctx context.Context, at, most int64) io.Reader {
	return &reader{ctx: ctx, of: f, at: at, most: most}
}

// Whole reports whether all of the file was read for its front.
func (f *Input) Whole() bool { return f.head != nil && int64(len(f.head)) == f.File.GetSize() }

type reader struct {
	ctx  context.Context //nolint:containedctx // it is that of one read from front to end
	of   *Input
	at   int64
	most int64
	left []byte
	buf  []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		n := min(r.most, r.of.File.GetSize()-r.at)
		if n <= 0 {
			return 0, io.EOF
		}
		if int64(cap(r.buf)) < n {
			r.buf = make([]byte, n)
		}
		_, err := storage.ReadRanges(r.ctx, r.of.Storage, r.of.Profile, r.of.File,
			[]storage.Range{{Offset: r.at, Length: n}}, storage.Reading{Part: partBytes},
			func(int64) ([]byte, error) { return r.buf[:n], nil })
		if err != nil {
			return 0, err
		}
		r.left, r.at = r.buf[:n], r.at+n
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// File describes a file.
type File interface {
	// Format is the name of its format.
	Format() string
	// Columns are what it has to be read.
	Columns() *Columns
	// Extents are all of its rows, in their order.
	Extents() []Extent
	// Stored is how many bytes of the file a column has, which may be one that cannot be read.
	Stored(column int) int64
	// Extent is what the format calls an extent: "row group".
	Extent() string
	// Knows reports whether the file was described for these sources.
	Knows(sources []*pb.Source) bool
	// Bind finds sources in the file, which must know them. It fails if the file has one of them as what cannot be read
	// as it.
	Bind(sources []*pb.Source) (Bound, error)
	// Size is about how many bytes of memory the description takes.
	Size() int64
}

// Scanned is a File whose format says nothing about where its rows are: a scan of its bytes finds that. Until then it
// has no extents.
type Scanned interface {
	File
	// Scan reads all of the file, from its front to its end, and hands on its extents in their order. What it finds
	// depends on nothing but the file's bytes, the format's version and the dataset's options.
	Scan(ctx context.Context, in *Input, found func(Place) error) error
	// Most is how many extents the file may have at most.
	Most() int64
	// At is the file with some of the extents of its index, in order. It fails for those that cannot be the file's.
	At(places []Place) (File, error)
	// Place is where an extent lies.
	Place(extent int) Place
	// Version is that of the rule by which extents are cut, and Cuts reports whether an option of the dataset is of it.
	Version() uint32
	Cuts(option string) bool
}

// Beside is a File of which another one beside it says where its rows are, which its own ETag does not tell.
type Beside interface {
	// Digest is that of what the other one says.
	Digest() []byte
	// IsCurrent reports whether the other one is still the same.
	IsCurrent(ctx context.Context, in *Input) (bool, error)
}

// BesideOf is what a ticket's extents say of the digest; 0: the file is no Beside.
func BesideOf(f File) uint64 {
	if of, ok := f.(Beside); ok {
		return binary.LittleEndian.Uint64(of.Digest())
	}
	return 0
}

// Place is an extent of a file that is Scanned, and where it lies.
type Place struct {
	Extent
	Index  int           // among the file's extents
	Stored storage.Range // that are read for it
	// Skip is how many bytes are to be left out in front of its rows, once they are decompressed, and Bytes how many
	// these have then.
	Skip, Bytes int64
	// Shared is how many of the stored bytes, from the last one backwards, are the next extent's too, and Over how many
	// of this one's rows lie in them, decompressed.
	Shared, Over int64
	// Restart is what its stored bytes begin with, and Next what the next extent's do; nil: a member or frame, or what
	// is not compressed.
	Restart, Next *Restart
}

// To has a ticket's extent say where it lies.
func (p Place) To(e *pb.Extent) {
	e.Offset, e.Length, e.Skip, e.Bytes = p.Stored.Offset, p.Stored.Length, p.Skip, p.Bytes
	e.Shared, e.Over = p.Shared, p.Over
	e.Restart, e.Next = p.Restart.proto(), p.Next.sum()
}

// PlaceOf is what a ticket says of an extent.
func PlaceOf(e *pb.Extent) Place {
	return Place{
		Extent: Extent{Rows: e.GetRows(), FirstRow: e.GetFirstRow()}, Index: int(e.GetIndex()),
		Stored: storage.Range{Offset: e.GetOffset(), Length: e.GetLength()}, Skip: e.GetSkip(), Bytes: e.GetBytes(),
		Shared: e.GetShared(), Over: e.GetOver(), Restart: restartOf(e.GetRestart()), Next: nextOf(e.GetNext()),
	}
}

// Extent is a run of whole rows of a file.
type Extent struct {
	Rows     int64
	FirstRow int64 // of the file
}

// Bound is a file in terms of the sources that are read of it, which are known by their index.
type Bound interface {
	Planned
	Read
}

// Planned is what planning needs to know.
type Planned interface {
	// Has reports whether the file has values of a source; else all are its default, or null.
	Has(source int) bool
	// Cost is what all sources of an extent take, and SourceCost what one of them does: sources may share what is read.
	Cost(extent int) Cost
	SourceCost(extent, source int) Cost
	// Stats is what the file says of the values of a source in an extent; false: nothing that can be relied on.
	Stats(extent, source int) (filter.Stats, bool)
	// Contradiction says what of a source's statistics in an extent cannot be, so that they are used for nothing; "" if
	// nothing.
	Contradiction(extent, source int) string
}

// Read is what reading needs to know.
type Read interface {
	// Chunks is how many chunks the sources of an extent are decoded from, the same of each extent, and Chunk one of
	// them.
	Chunks() int
	Chunk(extent, chunk int) Chunk
	// Window estimates what a source takes in a window of so many rows of an extent; what a key of a map takes is all
	// of the map.
	Window(extent, source int, rows int64) Size
}

// Indexed is a Bound of a file that says which rows of an extent are where.
type Indexed interface {
	// Index is where this lies of an extent, as far as it takes to find rows that pass a filter; of length 0 where
	// there is none.
	Index(extent int, by Filter) []storage.Range
	// Select finds by what was read there which windows of so many rows have none that passes, or lie before the rows
	// to skip. It returns nil if all are wanted. What contradicts itself or its neighbours is as good as none.
	Select(extent int, by Filter, windowRows, skip int64, index [][]byte) (Selection, Untrusted)
}

// Untrusted is how much of what was read contradicts itself or its neighbours, and why the first does.
type Untrusted struct {
	Count int64
	First string
}

// Add counts one more.
func (u *Untrusted) Add(why string) {
	if u.Count++; u.Count == 1 {
		u.First = why
	}
}

// Filter chooses rows by some of the sources.
type Filter struct {
	Expr    *filter.Expr // nil: all rows pass
	Sources []int
}

// Selection is what is wanted of an extent.
type Selection interface {
	// Wants reports whether a window is.
	Wants(window int64) bool
	// Ranges are the bytes of a chunk that the wanted windows take.
	Ranges(chunk int) []storage.Range
	// Size is how many bytes of memory the selection takes.
	Size() int64
}

// Cost is what it takes to read an extent.
type Cost struct {
	Stored  int64 // bytes that are read
	Decoded int64 // about the bytes that they are in memory
	Columns int   // that are decoded
}

// Chunk is a run of bytes that is decoded from its front to its end.
type Chunk struct {
	storage.Range
	Page int64 // about how many of its bytes are looked at at once
	// Held is about what a decoder holds of it beside the window, in bytes, and Later what that may grow to beyond.
	Held, Later int64
}

// Size is what a source has in a window: elements, or rows of scalars, and the bytes that they take; and of a map how
// many entries these are.
type Size struct{ Values, Bytes, Entries int64 }

// Name is an extent in messages: "row group 3".
func Name(f File, extent int) string { return fmt.Sprintf("%s %d", f.Extent(), extent) }

// Rows is how many a file has.
func Rows(f File) (n int64) {
	for _, e := range f.Extents() {
		n += e.Rows
	}
	return n
}

// Schema is a file's, as those of several files are merged.
func Schema(file *pb.File, f File) spec.FileSchema {
	return spec.FileSchema{File: file.GetUri(), Schema: f.Columns().Schema}
}
