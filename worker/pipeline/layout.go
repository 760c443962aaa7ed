package pipeline

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// unit is what is read at once: a run of small extents, an extent, or the beginnings of one's chunks.
type unit struct {
	groups []*extent
	how    storage.Reading
	ranges []storage.Range // of all of them
	pieces pieces          // of an extent that is read in parts
	size   int64           // of the memory that it takes
	buffer []byte
	index  int64         // bytes of the page index, beside those of chunks
	done   chan struct{} // closed when it has been read, or could not be
}

// extent is an extent on its way to the decoder.
type extent struct {
	*pb.Extent
	ranges []storage.Range // of its chunks
	chunks [][]byte        // what has been read of them
	skip   int64
	err    error // why there are no chunks

	sources   []decode.Source  // of the chunks, for the decoder
	apart     bool             // no two chunks share memory
	selection format.Selection // nil: all of it is read
	perChunk  []int            // how many of the ranges are of each chunk, if there is a selection
}

// start is a cursor in terms of the ticket's extents.
type start struct {
	extent int    // index in the ticket
	skip   int64  // source rows of that extent to skip
	window uint32 // number of the first window
	k      uint64 // output rows of it to leave out
}

// locate finds the extent and window of a cursor. Behind the last window, it returns len(groups).
func locate(groups []*pb.Extent, at Cursor) start {
	left := int64(at.Window)
	for i, g := range groups {
		n := windows(g)
		if left < n {
			return start{extent: i, skip: left * g.GetWindowRows(), window: at.Window, k: at.K}
		}
		left -= n
	}
	return start{extent: len(groups)}
}

// windows is how many windows an extent has.
func windows(g *pb.Extent) int64 {
	n := g.GetRows() / g.GetWindowRows()
	if g.GetRows()%g.GetWindowRows() > 0 {
		n++
	}
	return n
}

// layout says how a shard lies in its file, and what is read of it at once.
type layout struct {
	file   *format.Listed
	groups []*pb.Extent // of the ticket
	start  start
	how    storage.Reading
}

// skip is how many source rows of an extent of the ticket lie before the cursor.
func (l *layout) skip(i int) int64 {
	if i == l.start.extent {
		return l.start.skip
	}
	return 0
}

// ranges are where the chunks of an extent lie.
func (l *layout) ranges(g *pb.Extent) []storage.Range {
	out := make([]storage.Range, l.file.Chunks())
	for i := range out {
		out[i] = l.file.Chunk(int(g.GetIndex()), i).Range
	}
	return out
}

// unit is what is read at once of an extent of the ticket; one beyond the limit is read in pieces.
func (l *layout) unit(i int, limit int64) *unit { return l.units(i, 1, 0, limit) }

// units is what is read at once from an extent of the ticket on: it, and at most so many extents of at most so
// many bytes together.
func (l *layout) units(i, count int, together, limit int64) *unit {
	u := &unit{how: l.how, done: make(chan struct{})}
	for wanted := int64(0); i < len(l.groups) && len(u.groups) < count; i++ {
		g := &extent{Extent: l.groups[i], ranges: l.ranges(l.groups[i]), skip: l.skip(i)}
		for _, r := range g.ranges {
			wanted += r.Length
		}
		if len(u.groups) > 0 && wanted > together { // as much is read along at most as is wanted
			break
		}
		u.groups, u.ranges = append(u.groups, g), append(u.ranges, g.ranges...)
	}
	u.size = max(u.how.Size(u.ranges), u.separately())
	if len(u.groups) == 1 && u.size > limit {
		whole := *u
		if u.divide(limit); whole.size <= longPagesTimes*limit && l.grown(u) > whole.size-whole.size/4 {
			return &whole
		}
	}
	return u
}

// separately is what the extents of several take if each is read by itself, as where they cannot be together: they may
// have bytes in common.
func (u *unit) separately() (bytes int64) {
	if len(u.groups) < 2 {
		return 0
	}
	for _, g := range u.groups {
		bytes += storage.Reading{MaxGap: -1}.Size(g.ranges)
	}
	return bytes
}

// longPagesTimes is how many times as large as the limit one may be that is read as a whole because in pieces it would
// take hardly less.
const longPagesTimes = 3

const (
	maxPiece = 4 << 20
	minPiece = 16 << 10
)

// pieces says how the chunks of an extent that is too large to be held are read: of each the first two pieces,
// together, and then a piece at a time, ahead of its use. Short chunks end with their first two, and need no more.
type pieces struct {
	size int64 // 0: chunks are read whole
	next int64 // where in the unit's buffer the pieces to come are read to
}

// divide has a unit of one extent read in pieces, as large as the limit for all memory allows. If none allow it they
// are those that take least: what is read along between the pieces of many short chunks may be more than smaller ones
// spare.
func (u *unit) divide(limit int64) {
	whole := *u
	for size := int64(maxPiece); size >= minPiece && u.size > limit; size /= 2 {
		if d := whole.divided(size); d.size < u.size {
			*u = d
		}
	}
}

// divided is the unit in pieces of a size.
func (u unit) divided(size int64) unit {
	u.pieces.size, u.ranges = size, make([]storage.Range, 0, len(u.ranges))
	rest := int64(0)
	for _, r := range u.groups[0].ranges {
		if r.Length > 2*size {
			r.Length = 2 * size
			rest += size
		}
		u.ranges = append(u.ranges, r)
	}
	u.pieces.next = u.how.Size(u.ranges)
	u.size = u.pieces.next + rest
	return u
}

// longer is about what a unit that is divided comes to hold beyond its size: where a page is longer than what is in
// front of it, that is made anew.
func (l *layout) longer(u *unit) (bytes int64) {
	if u.pieces.size == 0 {
		return 0
	}
	g := u.groups[0]
	for i, r := range g.ranges {
		if page := l.file.Chunk(int(g.GetIndex()), i).Page; r.Length > 2*u.pieces.size && page > 2*u.pieces.size {
			bytes += page + u.pieces.size
		}
	}
	return bytes
}

// grown is about what a unit that is divided comes to hold where its pages are long.
func (l *layout) grown(u *unit) (bytes int64) {
	g := u.groups[0]
	for i, r := range g.ranges {
		if r.Length <= 2*u.pieces.size {
			bytes += r.Length
			continue
		}
		bytes += max(u.ranges[i].Length, l.file.Chunk(int(g.GetIndex()), i).Page) + u.pieces.size
	}
	return bytes
}
