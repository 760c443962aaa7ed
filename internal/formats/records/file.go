package records

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// File describes a file, with those of its extents that are known.
type File struct {
	Opened Opened
	Codec  Codec
	Limits Limits

	kind    Kind
	columns format.Columns
	size    int64 // of the file
	places  []format.Place
	extents []format.Extent
}

// Format is the name of the file's format.
func (f *File) Format() string { return f.kind.Name() }

// Version is that of the kind.
func (f *File) Version() uint32 { return f.kind.Version() }

// Cuts reports whether extents depend on an option of the dataset.
func (f *File) Cuts(option string) bool {
	return slices.ContainsFunc(f.kind.Options(), func(o Option) bool { return o.Cuts && o.Name == option })
}

// Compression is the name of what compresses the file; "": nothing does.
func (f *File) Compression() string {
	if f.Codec == Plain {
		return ""
	}
	return f.Codec.String()
}

// Columns are those that the file's front shows.
func (f *File) Columns() *format.Columns { return &f.columns }

// Extents are those that are known.
func (f *File) Extents() []format.Extent { return f.extents }

// Extent is what an extent is called.
func (f *File) Extent() string { return "extent" }

// Stored is how many bytes of the file a column has: it is not known, and all that a file has is read for any.
func (f *File) Stored(int) int64 { return f.size }

// Knows reports that any sources can be bound.
func (f *File) Knows([]*pb.Source) bool { return true }

// Size is the memory that the description takes.
func (f *File) Size() int64 {
	size := int64(unsafe.Sizeof(*f)) + f.Opened.Size() +
		int64(len(f.places))*int64(unsafe.Sizeof(format.Place{})+unsafe.Sizeof(format.Extent{}))
	for _, p := range f.places {
		if p.Restart != nil {
			size += int64(unsafe.Sizeof(*p.Restart)) + int64(len(p.Restart.Window))
		}
	}
	return size
}

// Most is how many extents the file may have at most: all but the last have as many bytes as the limit says.
func (f *File) Most() int64 {
	bytes := f.size
	if f.Codec != Plain && f.Limits.Ratio > 0 {
		bytes = ratioFromBytes + f.size*min(f.Limits.Ratio, (math.MaxInt64-ratioFromBytes)/(f.size+1))
	}
	return bytes/max(1, f.Limits.Extent) + 1
}

var errPlaces = errors.New("its extents, as they were told, cannot be those of the file")

// At is the file with some extents.
func (f *File) At(places []format.Place) (format.File, error) {
	for i, p := range places {
		if !f.may(p) || i > 0 && !f.follows(places[i-1], p) {
			return nil, errPlaces
		}
	}
	at := *f
	at.places, at.extents = places, make([]format.Extent, len(places))
	for i, p := range places {
		at.extents[i] = p.Extent
	}
	return &at, nil
}

// may reports whether an extent may be one of the file. The first one begins where the header ends.
func (f *File) may(p format.Place) bool {
	s, begin := p.Stored, f.begin()
	if p.Index < 0 || p.Rows < 1 || p.Rows > math.MaxInt32 || p.FirstRow < 0 || s.Length < 1 || s.Offset < 0 ||
		s.Offset > f.size-s.Length || p.Skip < 0 || p.Bytes < p.Rows || p.Bytes < f.Limits.Extent && !f.IsLast(p) ||
		p.Skip > math.MaxInt64-p.Bytes || p.Shared < 0 || p.Over < 0 || p.Over > p.Skip+p.Bytes ||
		p.Shared >= s.Length && p.Shared > 0 || !f.mayRestart(p) {
		return false
	}
	if p.Index == 0 && (p.FirstRow != 0 || s.Offset+p.Skip != begin || f.Codec != Plain && s.Offset != 0) {
		return false
	}
	return f.Codec != Plain || p.Skip == 0 && p.Shared == 0 && s.Length == p.Bytes && s.Offset >= begin
}

// mayRestart reports whether an extent, and the next one, may begin where they do: with a member, or with a restart,
// whose block is not the first one of the file.
func (f *File) mayRestart(p format.Place) bool {
	if (p.Restart != nil || p.Next != nil) && f.Limits.Spacing == 0 ||
		p.Restart != nil && (p.Stored.Offset == 0 || !p.Restart.May()) {
		return false
	}
	if p.Next != nil {
		return p.Shared > 0
	}
	return p.Shared > 0 == (p.Over > 0)
}

// follows reports whether an extent may be behind another one.
func (f *File) follows(before, p format.Place) bool {
	end := before.Stored.Offset + before.Stored.Length
	if before.Index+1 == p.Index {
		return before.FirstRow+before.Rows == p.FirstRow && end-before.Shared == p.Stored.Offset &&
			before.Over == p.Skip && before.Next.Is(p.Restart) &&
			(p.Restart == nil || p.Stored.Offset-before.Stored.Offset >= f.Limits.Spacing)
	}
	return before.Index < p.Index && before.FirstRow+before.Rows < p.FirstRow && before.Stored.Offset < p.Stored.Offset
}

// IsLast reports whether an extent ends where the file does.
func (f *File) IsLast(p format.Place) bool {
	return p.Shared == 0 && p.Next == nil && p.Stored.Offset+p.Stored.Length == f.size
}

// begin is where the header ends, decompressed.
func (f *File) begin() int64 {
	if of, ok := f.Opened.(Headed); ok {
		return of.Begin()
	}
	return 0
}

// behind is how many bytes behind an extent are read with it, to see that its last record ends there.
func (f *File) behind(p format.Place) int64 {
	if f.Codec != Plain {
		return 0
	}
	return min(f.Ahead(), f.size-p.Stored.Offset-p.Stored.Length)
}

// Ahead is at how many bytes behind a record is looked to see that it ends.
func (f *File) Ahead() int64 {
	if of, ok := f.Opened.(Ahead); ok {
		return int64(of.Behind())
	}
	return 0
}

// Place is where an extent lies, by its index among all of the file's.
func (f *File) Place(extent int) format.Place {
	if extent < len(f.places) && f.places[extent].Index == extent {
		return f.places[extent]
	}
	i := sort.Search(len(f.places), func(i int) bool { return f.places[i].Index >= extent })
	if i == len(f.places) || f.places[i].Index != extent {
		return format.Place{Index: extent}
	}
	return f.places[i]
}

// Bind finds sources in the file.
func (f *File) Bind(sources []*pb.Source) (format.Bound, error) {
	b := &Bound{File: f, Sources: sources, Access: make([]format.Access, len(sources))}
	for i, s := range sources {
		how, err := f.Opened.Find(s)
		if err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		if b.Access[i] = how; how.Stored() {
			b.stored++
		}
	}
	return b, nil
}

// Bound is a file in terms of the sources that are read of it.
type Bound struct {
	*File
	Sources []*pb.Source
	Access  []format.Access // to each source

	stored int // sources that the file has
}

// Has reports whether the file has values of a source.
func (b *Bound) Has(source int) bool { return b.Access[source].Stored() }

// Cost is what all sources of an extent take: all of it is read for any of them.
func (b *Bound) Cost(extent int) format.Cost {
	p := b.Place(extent)
	return format.Cost{Stored: p.Stored.Length, Decoded: p.Bytes, Columns: b.stored}
}

// SourceCost is what one of them does.
func (b *Bound) SourceCost(extent, source int) format.Cost {
	if !b.Has(source) {
		return format.Cost{}
	}
	p := b.Place(extent)
	return format.Cost{Stored: p.Stored.Length, Decoded: p.Bytes / int64(max(1, b.stored)), Columns: 1}
}

// Stats is what is known without reading values: of sources that the file lacks.
func (b *Bound) Stats(extent, source int) (filter.Stats, bool) {
	if b.Has(source) {
		return filter.Stats{}, false
	}
	return format.AbsentStats(b.Access[source], b.Sources[source], b.Place(extent).Rows)
}

// Contradiction is nothing, since there are no statistics.
func (b *Bound) Contradiction(int, int) string { return "" }

// Chunks is one: an extent.
func (b *Bound) Chunks() int { return 1 }

// Chunk is an extent's bytes.
func (b *Bound) Chunk(extent, _ int) format.Chunk {
	p := b.Place(extent)
	c := format.Chunk{Range: p.Stored, Page: min(p.Stored.Length, pageBytes)}
	c.Length += b.behind(p)
	if b.Codec != Plain {
		c.Held = heldUnpacked
	}
	c.Later = min(b.Limits.Record, p.Bytes)
	return c
}

const (
	// pageBytes is about what is looked at at once.
	pageBytes = 1 << 20
	// heldUnpacked is about what a decompressor holds, and the buffer behind it.
	heldUnpacked = 1 << 20
)

// Window estimates what a source takes in a window.
func (b *Bound) Window(extent, source int, rows int64) format.Size {
	if !b.Has(source) {
		return format.AbsentSize(b.Sources[source], rows)
	}
	p := b.Place(extent)
	share := float64(rows) / float64(max(1, p.Rows)) * float64(p.Bytes) / float64(max(1, b.stored))
	size := format.Size{Values: rows, Bytes: 8*rows + int64(share)}
	if b.Sources[source].GetType().GetList() { // an element takes two bytes of text at least
		size.Values = max(rows, int64(share)/4)
		size.Bytes = 8*size.Values + 4*rows
	}
	return size
}
