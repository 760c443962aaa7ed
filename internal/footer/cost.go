package footer

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Cost is what all sources of a row group take.
func (b *Bound) Cost(rowGroup int) format.Cost { return b.cost(rowGroup, b.leaves) }

// SourceCost is what one of them does; sources that are keys of one map share what is read, and each has all of it.
func (b *Bound) SourceCost(rowGroup, source int) format.Cost {
	return b.cost(rowGroup, b.bySource[source])
}

// maxChunk bounds what a footer can claim of a chunk, so that sums do not overflow.
const maxChunk = 1 << 40

// cost estimates. The uncompressed pages say little where a dictionary encodes them, so each value counts at least its width, and text as
// long as the file says it is.
func (b *Bound) cost(rowGroup int, leaves []int) format.Cost {
	cost := format.Cost{Columns: len(leaves)}
	for _, leaf := range leaves {
		c := &b.RowGroups[rowGroup].Chunks[leaf]
		cost.Stored += min(c.Length, maxChunk)
		cost.Decoded += max(min(c.Pages(), maxChunk), min(c.Values, maxChunk)*width(&b.Leaves[leaf])+min(c.Plain, maxChunk))
	}
	return cost
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
