package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"unsafe"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// The columns.
const (
	columnTokens   = "tokens"   // of a document or sequence
	columnDocument = "document" // the number of that which a sequence is of
)

// extentBytes is about what an extent has.
const extentBytes = 4 << 20

// File describes a file.
type File struct {
	columns format.Columns
	kind    pb.Kind
	size    int64
	from    int64   // the byte at which the tokens begin
	lengths []int32 // of rows, in tokens
	firsts  []int64 // the first row of each document, and the end; nil: rows are documents

	beside *pb.File // says where rows begin
	digest [sha256.Size]byte

	extents []format.Extent
	begins  []int64 // of extents, in bytes; and the end
}

// Digest is that of what the file beside it says.
func (f *File) Digest() []byte { return f.digest[:] }

// IsCurrent reports whether the file beside it is still the one that was read.
func (f *File) IsCurrent(ctx context.Context, in *format.Input) (bool, error) {
	_, documents, err := options(in.How)
	if err != nil {
		return false, err
	}
	found, err := besides(ctx, in, documents)
	if errors.Is(err, errNoIndex) {
		return false, nil
	}
	return err == nil && !storage.IsWeak(found) && found.GetUri() == f.beside.GetUri() &&
		found.GetSize() == f.beside.GetSize() && found.GetEtag() == f.beside.GetEtag(), err
}

// tokens is how many there are.
func (f *File) tokens() int64 { return (f.size - f.from) / int64(spec.Width(f.kind)) }

// finish makes the columns and the extents, which are no more than the file's size makes them, whatever the other one
// says.
func (f *File) finish() error {
	column := spec.Column{Name: columnTokens, Path: []string{columnTokens}, Type: spec.Type{Kind: f.kind, List: true}}
	if spec.Small(f.kind) {
		column.Own, column.Type.Kind = f.kind, spec.StandIn(f.kind)
	}
	columns := []spec.Column{column}
	if f.firsts != nil {
		columns = append(columns, spec.Column{
			Name: columnDocument, Path: []string{columnDocument}, Type: spec.Type{Kind: pb.Kind_INT64},
		})
	}
	f.columns = format.NewColumns(columns)
	width, tokens := int64(spec.Width(f.kind)), int64(0)
	for _, n := range f.lengths {
		tokens += int64(n)
	}
	if have := f.size - f.from; width*tokens != have {
		return fmt.Errorf("its documents have %d bytes of tokens, and the file %d: it is damaged, cut off, or of "+
			"another kind than %s", width*tokens, have, spec.KindName(f.kind))
	}
	f.cut(width)
	f.digest = f.sum()
	return nil
}

// cut makes the extents.
func (f *File) cut(width int64) {
	at, first := f.from, 0
	end := func(row int) {
		f.extents = append(f.extents, format.Extent{FirstRow: int64(first), Rows: int64(row - first)})
		first = row
		f.begins = append(f.begins, at)
	}
	f.begins = append(f.begins, at)
	for row, n := range f.lengths {
		if at-f.begins[len(f.begins)-1] >= extentBytes {
			end(row)
		}
		at += width * int64(n)
	}
	if first < len(f.lengths) {
		end(len(f.lengths))
	}
}

// sum is the digest of where rows begin, and of which kind tokens are.
func (f *File) sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	buf := binary.LittleEndian.AppendUint64(nil, uint64(f.from))
	buf = binary.LittleEndian.AppendUint32(buf, uint32(f.kind))
	buf = binary.LittleEndian.AppendUint64(buf, uint64(len(f.lengths)))
	for _, n := range f.lengths {
		if buf = binary.LittleEndian.AppendUint32(buf, uint32(n)); len(buf) > sumBytes {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	for _, row := range f.firsts {
		if buf = binary.LittleEndian.AppendUint64(buf, uint64(row)); len(buf) > sumBytes {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	h.Write(buf)
	h.Sum(sum[:0])
	return sum
}

// sumBytes is about how much is added to a digest at once.
const sumBytes = 1 << 12

// Format is the name of the file's format.
func (f *File) Format() string { return Format{}.Name() }

// Kind is that of tokens.
func (f *File) Kind() pb.Kind { return f.kind }

// Columns are the tokens, and the number of the document where rows are less than that.
func (f *File) Columns() *format.Columns { return &f.columns }

// Extents are runs of rows.
func (f *File) Extents() []format.Extent { return f.extents }

// Extent is what an extent is called.
func (f *File) Extent() string { return "extent" }

// Stored is how many bytes of the file a column has.
func (f *File) Stored(column int) int64 {
	if column == 0 {
		return f.size - f.from
	}
	return 0
}

// Knows reports that any sources can be bound.
func (f *File) Knows([]*pb.Source) bool { return true }

// Size is the memory that the description takes.
func (f *File) Size() int64 {
	return int64(unsafe.Sizeof(*f)) + 4*int64(cap(f.lengths)) + 8*int64(cap(f.firsts)) + 24*int64(len(f.extents))
}

// Lengths are those of rows, in tokens.
func (f *File) Lengths(first, rows int64) []int32 { return f.lengths[first:][:rows] }

// Document is the number of the document that a row is of.
func (f *File) Document(row int64) int64 {
	return int64(sort.Search(len(f.firsts), func(i int) bool { return f.firsts[i] > row })) - 1
}

// Bind finds sources in the file.
func (f *File) Bind(sources []*pb.Source) (format.Bound, error) {
	b := &Bound{File: f, Sources: sources, Bindings: make([]Binding, len(sources))}
	for i, s := range sources {
		how, column, err := f.columns.Find(s)
		if err != nil {
			return nil, fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		b.Bindings[i] = Binding{how, column == 0}
		if how.Stored() && column == 0 {
			b.tokens = true
		}
	}
	return b, nil
}

// Bound is a file in terms of the sources that are read of it.
type Bound struct {
	*File
	Sources  []*pb.Source
	Bindings []Binding // one for each source

	tokens bool // are read
}

// Binding is the access to a source, and whether it is the tokens, if it is stored.
type Binding struct {
	format.Access
	Tokens bool
}

// Has reports whether the file has values of a source.
func (b *Bound) Has(source int) bool { return b.Bindings[source].Stored() }

// stored is how many bytes of tokens an extent has.
func (b *Bound) stored(extent int) int64 { return b.begins[extent+1] - b.begins[extent] }

// Cost is what all sources of an extent take.
func (b *Bound) Cost(extent int) (cost format.Cost) {
	for i := range b.Sources {
		c := b.SourceCost(extent, i)
		cost.Decoded += c.Decoded
		cost.Columns += c.Columns
		cost.Stored = max(cost.Stored, c.Stored)
	}
	return cost
}

// SourceCost is what one of them does.
func (b *Bound) SourceCost(extent, source int) format.Cost {
	switch at := b.Bindings[source]; {
	case !at.Stored():
		return format.Cost{}
	case at.Tokens:
		n := b.stored(extent)
		width := max(4, spec.Width(b.Sources[source].GetType().GetKind()))
		return format.Cost{Stored: n, Decoded: n / int64(spec.Width(b.kind)) * int64(width), Columns: 1}
	}
	return format.Cost{Decoded: 8 * b.extents[extent].Rows, Columns: 1}
}

// Stats is what is known without reading values: of sources that the file lacks, and of documents' numbers.
func (b *Bound) Stats(extent, source int) (filter.Stats, bool) {
	if b.Has(source) {
		return filter.Stats{}, false
	}
	return format.AbsentStats(b.Bindings[source].Access, b.Sources[source], b.extents[extent].Rows)
}

// Contradiction is nothing, since there are no statistics.
func (b *Bound) Contradiction(int, int) string { return "" }

// Chunks is one, if tokens are read.
func (b *Bound) Chunks() int {
	if b.tokens {
		return 1
	}
	return 0
}

// Chunk is an extent's tokens.
func (b *Bound) Chunk(extent, _ int) format.Chunk {
	at := storage.Range{Offset: b.begins[extent], Length: b.stored(extent)}
	return format.Chunk{Range: at, Page: min(at.Length, 1<<20)}
}

// Window estimates what a source takes in a window.
func (b *Bound) Window(extent, source int, rows int64) format.Size {
	switch at := b.Bindings[source]; {
	case !at.Stored():
		return format.AbsentSize(b.Sources[source], rows)
	case at.Tokens:
		n := rows * (b.stored(extent)/int64(spec.Width(b.kind))/max(1, b.extents[extent].Rows) + 1)
		return format.Size{Values: n, Bytes: n*int64(spec.Width(b.Sources[source].GetType().GetKind())) + 4*rows}
	}
	return format.Size{Values: rows, Bytes: 8 * rows}
}
