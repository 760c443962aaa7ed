package fake

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Layout is how the rows of one epoch lie in lanes, block by block.
type Layout struct {
	Data  *Dataset
	Epoch uint32
	Lanes int
	// Blocks[b] are the pieces of a block, Starts[b] the rows of each lane before it. Starts has one more, the ends.
	Blocks [][]Piece
	Starts [][]uint64
}

// Piece is a run of rows of one shard in one lane.
type Piece struct {
	position.Interval
	Shard       int
	Lane        uint32
	First, Rows uint64 // of the lane
}

// NewLayout lays out an epoch: shard by shard the lane with the fewest rows takes the next; in the last block, shards
// are cut so that lanes end together.
func NewLayout(d *Dataset, epoch uint32, lanes int) *Layout {
	l := &Layout{Data: d, Epoch: epoch, Lanes: lanes}
	rows := make([]uint64, lanes)
	l.Starts = append(l.Starts, append([]uint64(nil), rows...))
	for from := 0; from < len(d.Shards); from += d.BlockShards {
		to := min(from+d.BlockShards, len(d.Shards))
		var pieces []Piece
		for shard := from; shard < to; shard++ {
			pieces = append(pieces, l.place(shard, to == len(d.Shards), rows)...)
		}
		l.Blocks = append(l.Blocks, pieces)
		l.Starts = append(l.Starts, append([]uint64(nil), rows...))
	}
	return l
}

// place puts a shard into lanes.
func (l *Layout) place(shard int, last bool, rows []uint64) (pieces []Piece) {
	left := uint64(0)
	for _, n := range l.Data.Shards[shard] {
		left += uint64(n)
	}
	start := l.Data.Start(l.Epoch, shard)
	end := l.Data.Start(l.Epoch, shard+1)
	for k := uint64(0); left > 0; {
		lane, n := l.fewest(rows), left
		if last {
			lane, n = l.neediest(rows)
			n = min(n, left)
		}
		p := Piece{Shard: shard, Lane: uint32(lane), First: rows[lane], Rows: n}
		p.From = l.at(start, shard, k)
		p.To = end
		if n < left {
			p.To = l.at(start, shard, k+n)
		}
		pieces = append(pieces, p)
		k, left = k+n, left-n
		rows[lane] += n
	}
	return pieces
}

func (l *Layout) fewest(rows []uint64) int {
	best := 0
	for i, n := range rows {
		if n < rows[best] {
			best = i
		}
	}
	return best
}

// neediest is the lane that lacks most of its share, and how much.
func (l *Layout) neediest(rows []uint64) (lane int, lacks uint64) {
	total := uint64(l.Data.Rows())
	for i, n := range rows {
		share := total / uint64(l.Lanes)
		if uint64(i) < total%uint64(l.Lanes) {
			share++
		}
		if share > n && share-n > lacks {
			lane, lacks = i, share-n
		}
	}
	return lane, lacks
}

// at is the position of output row k of a shard.
func (l *Layout) at(start position.Position, shard int, k uint64) position.Position {
	for w, n := range l.Data.Shards[shard] {
		if k < uint64(n) {
			start.Window, start.K = uint32(w), k
			return start
		}
		k -= uint64(n)
	}
	panic("fake: no such row")
}

// Steps is how many steps of q rows a lane the epoch has, when so many of its blocks are planned.
func (l *Layout) Steps(planned int, q uint64, drop bool) (steps uint64, final bool) {
	final = planned == len(l.Blocks)
	for lane, n := range l.Starts[planned] {
		s := n / q
		if final && !drop {
			s = (n + q - 1) / q
			steps = max(steps, s)
		} else if lane == 0 || s < steps {
			steps = s
		}
	}
	return steps, final
}

// Batch is the ids of the rows that ranks with lanes from to to get in a step of q rows a lane.
func (l *Layout) Batch(step, q uint64, from, to uint32) (ids []int64) {
	for lane := from; lane < to; lane++ {
		for _, pieces := range l.Blocks {
			for _, p := range pieces {
				if p.Lane == lane {
					ids = append(ids, l.cut(p, step*q, (step+1)*q)...)
				}
			}
		}
	}
	return ids
}

// cut is the ids of those rows of a piece that are rows lo to hi of its lane.
func (l *Layout) cut(p Piece, lo, hi uint64) []int64 {
	lo, hi = max(lo, p.First), min(hi, p.First+p.Rows)
	if lo >= hi {
		return nil
	}
	return l.Data.IDs(position.Set{p.Interval})[lo-p.First : hi-p.First]
}

// from is a piece from row on of its lane; it is empty if it has no such row.
func (l *Layout) from(p Piece, row uint64) Piece {
	if row <= p.First {
		return p
	}
	if row >= p.First+p.Rows {
		return Piece{}
	}
	skip := row - p.First
	before := uint64(0) // rows of the shard before the piece
	l.Data.In(position.Set{{From: l.Data.Start(l.Epoch, p.Shard), To: p.From}},
		func(_ Row, lo, hi int) { before += uint64(hi - lo) })
	p.From = l.at(l.Data.Start(l.Epoch, p.Shard), p.Shard, before+skip)
	p.First, p.Rows = row, p.Rows-skip
	return p
}

// start says where a block begins.
func (l *Layout) start(block int) *pb.LaneStart {
	return &pb.LaneStart{Epoch: l.Epoch, Block: uint32(block), Rows: l.Starts[block]}
}
