package fake

import (
	"math/rand/v2"

	"github.com/penstock-ml/penstock/api/position"
)

// Dataset is what fakes serve: every value of a row follows from the row's id.
type Dataset struct {
	Epochs uint32
	// Shards[i][w] is the number of output rows of window w; blocks have BlockShards shards.
	Shards      [][]int
	BlockShards int
	// Bad, if set, has workers leave out one row for about so many, which no window counts.
	Bad int
}

// NewDataset makes a dataset of random sizes, with some empty windows.
func NewDataset(seed uint64, epochs uint32, shards int) *Dataset {
	r := rand.New(rand.NewPCG(seed, 1))
	d := &Dataset{Epochs: epochs, BlockShards: 3}
	for range shards {
		windows := make([]int, 1+r.IntN(4))
		for w := range windows {
			windows[w] = r.IntN(60)
			if r.IntN(4) == 0 {
				windows[w] = 0 // all rows filtered out
			}
		}
		d.Shards = append(d.Shards, windows)
	}
	return d
}

// Rows of one epoch.
func (d *Dataset) Rows() int {
	n := 0
	for _, windows := range d.Shards {
		for _, rows := range windows {
			n += rows
		}
	}
	return n
}

// blocks of an epoch.
func (d *Dataset) blocks() int { return (len(d.Shards) + d.BlockShards - 1) / d.BlockShards }

// Start is the position of shard i, or of what follows it.
func (d *Dataset) Start(epoch uint32, i int) position.Position {
	if i >= len(d.Shards) {
		return position.Position{Epoch: epoch + 1}
	}
	return position.Position{Epoch: epoch, Block: uint32(i / d.BlockShards), Shard: uint32(i % d.BlockShards)}
}

// Index is the inverse of Start.
func (d *Dataset) Index(p position.Position) int { return int(p.Block)*d.BlockShards + int(p.Shard) }

// In calls f with each run of rows, k from lo to hi of one window, that lies in a set of positions.
func (d *Dataset) In(set position.Set, f func(r Row, lo, hi int)) {
	for epoch := range d.Epochs {
		if len(set.Intersect(position.Set{{From: d.Start(epoch, 0), To: d.Start(epoch+1, 0)}})) == 0 {
			continue
		}
		for shard, windows := range d.Shards {
			for w, rows := range windows {
				from := d.Start(epoch, shard)
				from.Window = uint32(w)
				to := from
				to.Window++
				for _, iv := range set.Intersect(position.Set{{From: from, To: to}}) {
					lo, hi := int(iv.From.K), rows
					if iv.To.Window == from.Window {
						hi = min(int(iv.To.K), rows)
					}
					if lo < hi {
						f(Row{Epoch: epoch, Shard: shard, Window: w}, lo, hi)
					}
				}
			}
		}
	}
}

// rowsIn is the number of rows in a set of positions.
func (d *Dataset) rowsIn(set position.Set) (n int) {
	d.In(set, func(_ Row, lo, hi int) { n += hi - lo })
	return n
}

// tail is the rows of a set after its first ones.
func (d *Dataset) tail(set position.Set, rows int) (tail position.Set) {
	d.In(set, func(r Row, lo, hi int) {
		n := min(rows, hi-lo)
		if rows -= n; n == hi-lo {
			return
		}
		from := d.Start(r.Epoch, r.Shard)
		from.Window, from.K = uint32(r.Window), uint64(lo+n)
		to := from
		to.K = uint64(hi)
		tail = tail.Union(position.Set{{From: from, To: to}})
	})
	return tail
}

// windowEnd is where a position's window ends.
func (d *Dataset) windowEnd(p position.Position) position.Position {
	i := d.Index(p)
	p.Window, p.K = p.Window+1, 0
	if int(p.Window) >= len(d.Shards[i]) {
		return d.Start(p.Epoch, i+1)
	}
	return p
}

// IDs of all rows in a set of positions, in order.
func (d *Dataset) IDs(set position.Set) []int64 {
	var ids []int64
	d.In(set, func(r Row, lo, hi int) {
		for r.K = lo; r.K < hi; r.K++ {
			ids = append(ids, r.ID())
		}
	})
	return ids
}

// All is all positions of all epochs.
func (d *Dataset) All() position.Set { return position.Set{{To: position.Position{Epoch: d.Epochs}}} }

// Row is one row's identity.
type Row struct {
	Epoch            uint32
	Shard, Window, K int
}

// ID is unique in the session.
func (r Row) ID() int64 {
	return int64(r.Epoch)*1e11 + int64(r.Shard)*1e8 + int64(r.Window)*1e6 + int64(r.K)
}

// RowOf is the inverse of ID.
func RowOf(id int64) Row {
	return Row{Epoch: uint32(id / 1e11), Shard: int(id / 1e8 % 1e3), Window: int(id / 1e6 % 100), K: int(id % 1e6)}
}
