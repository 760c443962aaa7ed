package arrow

import (
	"maps"
	"slices"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Bound is a file in terms of the sources that are read of it.
type Bound struct {
	*File
	Sources  []*pb.Source
	Bindings []Binding // one for each source

	buffers      []int   // of a batch, that are read, in their order
	dictionaries []int64 // that are read, in the order of their ids
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
}

// buffers are those of a batch that an array is read from.
func (a *Array) buffers() []int {
	out := slices.Concat(a.Structs, a.Inner)
	if a.List != nil {
		out = append(out, a.List.Validity)
		if a.List.Offsets >= 0 {
			out = append(out, a.List.Offsets)
		}
	}
	for i := range a.own() {
		out = append(out, a.Buffers+i)
	}
	return out
}

// own is how many buffers are an array's own.
func (a *Array) own() int {
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
	for _, r := range b.Ranges(batch) {
		cost.Stored += r.Length
	}
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
	if a.Index == nil && a.Kind == pb.Kind_BINARY {
		bytes := g.Buffers[a.Buffers+a.own()-1].Length
		if g.Codec != Uncompressed {
			bytes *= packed
		}
		values += bytes
	}
	return values
}

// Ranges are the bytes of a record batch that its sources are decoded from: its buffers, and then those of dictionaries.
func (b *Bound) Ranges(batch int) []storage.Range {
	var out []storage.Range
	for _, i := range b.buffers {
		out = append(out, b.batches[batch].Buffers[i])
	}
	for _, id := range b.dictionaries {
		for _, part := range b.File.dictionaries[id] {
			out = append(out, part.Buffers...)
		}
	}
	return out
}

// Stats is what is known without reading values: of sources that the file lacks.
func (b *Bound) Stats(batch, source int) (filter.Stats, bool) {
	rows := b.batches[batch].Rows
	switch at := b.Bindings[source]; {
	case at.Access == format.Nulls:
		return format.AllNull(rows), true
	case !at.Stored():
		return format.Default(b.Sources[source], rows)
	}
	return filter.Stats{}, false
}

// Contradiction is nothing, since there are no statistics.
func (b *Bound) Contradiction(int, int) string { return "" }
