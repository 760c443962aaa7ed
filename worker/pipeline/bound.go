package pipeline

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/columns"
)

// bound is a file as far as the sources of a program go: where the bytes lie that these need, and what they come to in
// memory. What streams want to know of a footer they ask here; pageindex.go has what they ask of page indexes.
type bound struct {
	footer *footer.Footer
	leaves []int // of the footer, that the sources need; of each a row group has a chunk
}

func bind(f *footer.Footer, sources []*pb.Source) (*bound, error) {
	leaves, err := columns.Leaves(f, sources)
	if err != nil {
		return nil, err
	}
	return &bound{footer: f, leaves: leaves}, nil
}

// checkTicket finds what in a ticket does not fit the file, before anything is read by it.
func checkTicket(f *footer.Footer, t *pb.Ticket) error {
	uri := t.GetFile().GetUri()
	for _, g := range t.GetRowGroups() {
		if int(g.GetIndex()) >= len(f.RowGroups) {
			return fmt.Errorf("%s has %d row groups, the ticket names row group %d: %w",
				uri, len(f.RowGroups), g.GetIndex(), storage.ErrChanged)
		}
		have := &f.RowGroups[g.GetIndex()]
		if have.Rows != g.GetRows() || have.FirstRow != g.GetFirstRow() {
			return fmt.Errorf("%s row group %d has %d rows from %d on, the ticket says %d from %d on: %w",
				uri, g.GetIndex(), have.Rows, have.FirstRow, g.GetRows(), g.GetFirstRow(), storage.ErrChanged)
		}
		if g.GetWindowRows() <= 0 || min(g.GetWindowRows(), g.GetRows()) > math.MaxInt32 {
			return fmt.Errorf("%s row group %d: the ticket has windows of %d rows; want 1 to %d: %w",
				uri, g.GetIndex(), g.GetWindowRows(), math.MaxInt32, ErrProgram)
		}
	}
	return nil
}

// chunk is that of a leaf in a row group.
func (b *bound) chunk(g *pb.RowGroup, leaf int) *footer.Chunk {
	return &b.footer.RowGroups[g.GetIndex()].Chunks[leaf]
}

// ranges are where the chunks of a row group lie.
func (b *bound) ranges(g *pb.RowGroup) []storage.Range {
	out := make([]storage.Range, len(b.leaves))
	for i, leaf := range b.leaves {
		c := b.chunk(g, leaf)
		out[i] = storage.Range{Offset: c.Offset, Length: c.Length}
	}
	return out
}

// length is how many bytes these are.
func (b *bound) length(g *pb.RowGroup) (bytes int64) {
	for _, leaf := range b.leaves {
		bytes += b.chunk(g, leaf).Length
	}
	return bytes
}

// pageBytes is what writers make pages of, and dictionaries. A chunk with longer ones has the stream ask for more as it
// meets them.
const pageBytes = 1 << 20

// pageLength is about how long the pages of a row group's chunk number i are in the file.
func (b *bound) pageLength(g *pb.RowGroup, i int) int64 {
	c := b.chunk(g, b.leaves[i])
	return int64(float64(c.Length) * min(1, pageBytes/float64(max(1, c.Pages()))))
}

// pages is what the pages of a row group take in memory, and how much more that may be: slices grow by more than they
// need, and what is in a dictionary is there twice while it is read.
func (b *bound) pages(g *pb.RowGroup) (bytes, later int64) {
	for _, leaf := range b.leaves {
		c := b.chunk(g, leaf)
		page := min(c.Pages(), pageBytes)
		bytes += page
		later += page / 4
		if columns.Indexed(c) {
			later += page + page/4
		}
	}
	return bytes, later
}

// reset has a decoder begin a row group.
func (b *bound) reset(d *columns.Decoder, uri string, g *rowGroup) error {
	d.OwnChunks(g.apart)
	if g.sources == nil {
		return d.Reset(uri, b.footer, int(g.GetIndex()), g.chunks)
	}
	err := d.ResetSources(uri, b.footer, int(g.GetIndex()), g.sources)
	if err == nil && g.pruned != nil {
		err = d.UsePages(g.pruned.pages)
	}
	return err
}

// size is what a slot has in a window: elements, or rows of scalars, and their bytes.
type size struct{ values, bytes int64 }

// sourceSize is that of a source in so many rows of a row group, or of all of the map that it is a key of.
func (b *bound) sourceSize(path string, src *pb.Source, g *pb.RowGroup, rows int64) size {
	column, ok := b.footer.Column(path)
	if !ok { // its default, or null
		n := rows * int64(max(1, len(spec.Elements(src.GetDefault()))))
		return size{n, n*int64(8+len(src.GetDefault().GetText())) + 4*rows}
	}
	var z size
	from, to := b.footer.LeavesOf(column)
	for leaf := from; leaf < to; leaf++ {
		c := b.chunk(g, leaf)
		share := float64(rows) / float64(max(1, g.GetRows()))
		n := int64(share * float64(c.Values))
		z.values += n
		z.bytes += 8*n + 4*rows // values, or the ends of bytes, and offsets
		if b.footer.Leaves[leaf].Physical >= footer.ByteArray {
			z.bytes += int64(share * float64(max(c.Pages(), c.Plain)))
		}
	}
	z.bytes += z.bytes / 4 // slices grow by more than they need, and there are bitmaps
	return z
}
