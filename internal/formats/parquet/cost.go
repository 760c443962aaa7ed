package parquet

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Cost is what all sources of a row group take.
func (b *Bound) Cost(rowGroup int) format.Cost { return b.cost(rowGroup, b.leaves) }

// SourceCost is what one of them does; sources that are keys of one map share what is read, and each has all of it.
func (b *Bound) SourceCost(rowGroup, source int) format.Cost {
	return b.cost(rowGroup, b.bySource[source])
}

// maxChunk bounds what a footer can claim of a chunk, so that sums do not overflow.
const maxChunk = 1 << 40

// cost estimates. The uncompressed pages say little where a dictionary encodes them, so each value counts at least its
// width, and text as long as the file says it is.
func (b *Bound) cost(rowGroup int, leaves []int) format.Cost {
	cost := format.Cost{Columns: len(leaves)}
	for _, leaf := range leaves {
		c := b.ChunkOf(rowGroup, leaf)
		cost.Stored += min(c.Length, maxChunk)
		cost.Decoded += max(min(c.Pages(), maxChunk), min(c.Values, maxChunk)*width(&b.Leaves[leaf])+min(c.Plain,
			maxChunk))
	}
	return cost
}

// Chunks is how many column chunks of a row group are decoded: a leaf that is made two kinds is decoded twice.
func (b *Bound) Chunks() int { return len(b.Uses) }

// pageBytes is what writers make pages of, and dictionaries. A chunk with longer ones has the stream ask for more as it
// meets them.
const pageBytes = 1 << 20

// Chunk is a column chunk: of it a page is decompressed at a time, and a dictionary kept, which is there twice while it
// is read. Slices grow by more than they need.
func (b *Bound) Chunk(rowGroup, i int) format.Chunk {
	c := b.chunk(rowGroup, i)
	page := min(c.Pages(), pageBytes)
	out := format.Chunk{
		Range: storage.Range{Offset: c.Offset, Length: c.Length},
		Page:  int64(float64(c.Length) * min(1, pageBytes/float64(max(1, c.Pages())))),
		Held:  page, Later: page / 4,
	}
	if c.indexed() {
		out.Later += page + page/4
	}
	return out
}

func (b *Bound) chunk(rowGroup, i int) *Chunk { return b.ChunkOf(rowGroup, b.Uses[i].Leaf) }

// indexed reports whether pages of a chunk hold indices into a dictionary.
func (c *Chunk) indexed() bool {
	const plainDictionary, rleDictionary = 2, 8
	return slices.Contains(c.Encodings, plainDictionary) || slices.Contains(c.Encodings, rleDictionary)
}

// Window estimates what a source takes in a window.
func (b *Bound) Window(rowGroup, source int, rows int64) format.Size {
	if !b.Has(source) {
		return format.AbsentSize(b.Sources[source], rows)
	}
	var z format.Size
	for i, leaf := range b.bySource[source] {
		c := b.ChunkOf(rowGroup, leaf)
		share := float64(rows) / float64(max(1, b.RowGroups[rowGroup].Rows))
		n := int64(share * float64(c.Values))
		if i == 0 && b.Bindings[source].Access == format.MapKey {
			z.Entries = n
		}
		z.Values += n
		z.Bytes += 8*n + 4*rows // values, or the ends of bytes, and offsets
		z.Bytes += 4 * n * int64(max(0, b.Leaves[leaf].MaxRep-1))
		if b.Leaves[leaf].Physical >= ByteArray {
			z.Bytes += int64(share * float64(max(c.Pages(), c.Plain)))
		}
	}
	z.Bytes += z.Bytes / 4 // slices grow by more than they need, and there are bitmaps
	return z
}

// width is the least memory that a decoded value takes, in bytes.
func width(l *Leaf) int64 {
	switch l.Kind {
	case pb.Kind_BOOL:
		return 1
	case pb.Kind_INT64, pb.Kind_FLOAT64:
		return 8
	default: // binary values have an offset each
		return 4
	}
}
