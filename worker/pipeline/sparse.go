package pipeline

import (
	"errors"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// sparse is a chunk of which some ranges are in memory.
type sparse struct {
	at     int64 // of the chunk
	ranges []storage.Range
	data   [][]byte
}

// Bytes is that of decode.Source.
func (c *sparse) Bytes(from, n int) ([]byte, error) {
	for i, r := range c.ranges {
		if at := c.at + int64(from) - r.Offset; at >= 0 && at+int64(n) <= r.Length {
			return c.data[i][at:], nil
		}
	}
	return nil, errors.New("it is not where the index has it: the file is damaged")
}

// sparseChunks are the chunks of an extent of which a selection was read.
func sparseChunks(file format.Bound, g *extent) []decode.Source {
	out := make([]decode.Source, file.Chunks())
	ranges, chunks := g.ranges, g.chunks
	for i, n := range g.perChunk {
		out[i] = &sparse{file.Chunk(int(g.GetIndex()), i).Offset, ranges[:n], chunks[:n]}
		ranges, chunks = ranges[n:], chunks[n:]
	}
	return out
}

// wholeChunks are chunks that are in memory.
func wholeChunks(chunks [][]byte) []decode.Source {
	whole, out := make([]decode.Whole, len(chunks)), make([]decode.Source, len(chunks))
	for i, data := range chunks {
		whole[i] = data
		out[i] = &whole[i]
	}
	return out
}
