package arrow

import (
	"maps"
	"slices"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Bound is a file in terms of the sources that are read of it.
type Bound struct {
	*File
	Sources  []*pb.Source
	Bindings []Binding // one for each source

	buffers      []int   // of a batch, that are read, in their order
	dictionaries []int64 // that are read, in the order of their ids
	shared       []shared
	sharedBytes  int64 // of these, in the file
}

// shared is a buffer of a dictionary.
type shared struct {
	part   *Batch
	buffer int
}

// Binding is the access to a source, and its column's arrays.
type Binding struct {
	format.Access
	Arrays []*Array
}

// findBuffers finds what is read of each batch.
func (b *Bound) findBuffers() {
	buffers, dictionaries := map[int]bool{}, map[int64]bool{}
	for _, at := range b.Bindings {
		for _, a := range at.Arrays {
			for _, i := range a.buffers() {
				buffers[i] = true
			}
			if a.Index != nil {
				dictionaries[a.ID] = true
			}
		}
	}
	b.buffers = slices.Sorted(maps.Keys(buffers))
	b.dictionaries = slices.Sorted(maps.Keys(dictionaries))
	for _, id := range b.dictionaries {
		for _, part := range b.Parts(id) {
			for i := range part.Buffers {
				b.shared = append(b.shared, shared{part, i})
			}
		}
		b.sharedBytes += stored(b.Parts(id))
	}
}

// buffers are those of a batch that an array is read from.
func (a *Array) buffers() []int {
	out := slices.Concat(a.Structs, a.Inner)
	for _, l := range a.Lists {
		out = append(append(out, l.Around...), l.Validity)
		if l.Offsets >= 0 {
			out = append(out, l.Offsets)
		}
	}
	for i := range a.Own() {
		out = append(out, a.Buffers+i)
	}
	return out
}

// Own is how many buffers are an array's own.
func (a *Array) Own() int {
	if a.Index != nil {
		return 2
	}
	return buffersOf(a.Type, true)
}

// Has reports whether the file has values of a source.
func (b *Bound) Has(source int) bool { return b.Bindings[source].Stored() }

// Cost is what all sources of a record batch take: dictionaries are read for each.
func (b *Bound) Cost(batch int) format.Cost {
	var cost format.Cost
	for _, i := range b.buffers {
		cost.Stored += b.batches[batch].Buffers[i].Length
	}
	cost.Stored += b.sharedBytes
	seen := map[*Array]bool{}
	for _, at := range b.Bindings {
		for _, a := range at.Arrays {
			if !seen[a] {
				seen[a] = true
				cost.Columns++
				cost.Decoded += b.decoded(batch, a)
			}
		}
	}
	return cost
}

// SourceCost is what one of them does; sources that are keys of one map share what is read, and each has all of it.
func (b *Bound) SourceCost(batch, source int) format.Cost {
	var cost format.Cost
	for _, a := range b.Bindings[source].Arrays {
		for _, i := range a.buffers() {
			cost.Stored += b.batches[batch].Buffers[i].Length
		}
		if a.Index != nil {
			cost.Stored += stored(b.Parts(a.ID))
		}
		cost.Columns++
		cost.Decoded += b.decoded(batch, a)
	}
	return cost
}

// packed is about how much shorter the bytes of compressed buffers are.
const packed = 3

// decoded estimates what the values of an array take in memory.
func (b *Bound) decoded(batch int, a *Array) int64 {
	g := b.batches[batch]
	width := map[pb.Kind]int64{pb.Kind_BOOL: 1, pb.Kind_INT64: 8, pb.Kind_FLOAT64: 8}[a.Kind]
	if width == 0 {
		width = 4
	}
	values := width * g.Lengths[a.Array]
	if a.Index != nil && a.Kind == pb.Kind_BINARY {
		rows := int64(0)
		for _, part := range b.Parts(a.ID) {
			rows += part.Rows
		}
		return values + int64(float64(b.dictionaryBytes(a.ID))/float64(max(1, rows))*float64(g.Lengths[a.Array]))
	}
	if a.Kind == pb.Kind_BINARY {
		bytes := g.Buffers[a.Buffers+a.Own()-1].Length
		if g.Codec != Uncompressed {
			bytes *= packed
		}
		values += bytes
	}
	return values
}

// Batch is a record batch.
func (b *Bound) Batch(i int) *Batch { return b.batches[i] }

// Buffers are those of a batch that are read, in their order.
func (b *Bound) Buffers() []int { return b.buffers }

// Dictionaries are those that are read, in the order of their ids, and Parts those of one.
func (b *Bound) Dictionaries() []int64 { return b.dictionaries }

// Parts are the batches that a dictionary's values are in, one after the other.
func (b *Bound) Parts(dictionary int64) []*Batch { return b.File.dictionaries[dictionary] }

// Chunks is how many buffers a record batch is decoded from, those of its dictionaries included.
func (b *Bound) Chunks() int { return len(b.buffers) + len(b.shared) }

// Chunk is a buffer of a record batch, or after these one of a dictionary. A compressed one is decompressed whole.
func (b *Bound) Chunk(batch, i int) format.Chunk {
	of, at := b.batches[batch], 0
	if i < len(b.buffers) {
		at = b.buffers[i]
	} else {
		dictionary := b.shared[i-len(b.buffers)]
		of, at = dictionary.part, dictionary.buffer
	}
	c := format.Chunk{Range: of.Buffers[at]}
	if of.Codec == Uncompressed {
		c.Page = min(c.Length, pageBytes)
		return c
	}
	c.Page, c.Held, c.Later = c.Length, packed*c.Length, packed*c.Length
	return c
}

// pageBytes is about what a window takes of a buffer.
const pageBytes = 1 << 20

// Window estimates what a source takes in a window.
func (b *Bound) Window(batch, source int, rows int64) format.Size {
	if !b.Has(source) {
		return format.AbsentSize(b.Sources[source], rows)
	}
	var z format.Size
	g := b.batches[batch]
	share := float64(rows) / float64(max(1, g.Rows))
	for i, a := range b.Bindings[source].Arrays {
		n := int64(share * float64(g.Lengths[a.Array]))
		if i == 0 && b.Bindings[source].Access == format.MapKey {
			z.Entries = n
		}
		z.Values += n
		z.Bytes += 8*n + 4*rows + int64(share*float64(b.decoded(batch, a)))
		if a.Index != nil {
			z.Bytes += 8*n + b.dictionaryBytes(a.ID)
		}
		for i := 1; i < len(a.Lists); i++ {
			z.Bytes += 4 * int64(share*float64(g.Lengths[a.Lists[i].Array]))
		}
	}
	z.Bytes += z.Bytes / 4 // slices grow by more than they need, and there are bitmaps
	return z
}

// dictionaryBytes estimates what a dictionary takes once it is decoded.
func (b *Bound) dictionaryBytes(id int64) (n int64) {
	for _, part := range b.Parts(id) {
		bytes := stored([]*Batch{part})
		if part.Codec != Uncompressed {
			bytes *= packed
		}
		n += bytes + 8*part.Rows
	}
	return n
}

// Stats is what is known without reading values: of sources that the file lacks.
func (b *Bound) Stats(batch, source int) (filter.Stats, bool) {
	if b.Has(source) {
		return filter.Stats{}, false
	}
	return format.AbsentStats(b.Bindings[source].Access, b.Sources[source], b.batches[batch].Rows)
}

// Contradiction is nothing, since there are no statistics.
func (b *Bound) Contradiction(int, int) string { return "" }
