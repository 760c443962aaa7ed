package plan

import (
	"cmp"
	"container/heap"
	"slices"
)

// Piece is a run of a shard's output rows in a lane. A shard is one piece, but for the last block of an epoch.
type Piece struct {
	Shard uint32 // of the block
	From  uint64 // output row of the shard at which it begins
	Rows  uint64
	Lane  uint32
	First uint64 // rows of the epoch that the lane has before it
}

// Lanes lays the shards of a block, of which it takes the numbers of output rows, out in lanes that have as many rows
// before. It depends on nothing else, so that every master, with any number of ranks and workers, does the same. It
// returns the pieces in the block's order, and what the lanes have then.
//
// A whole shard goes to the lane that has the fewest rows, of several to the lowest. In the last block of an epoch, no
// lane takes more than is missing to its share, and the one that misses most goes first: shards are cut there, so that
// the lanes end together. Shares differ by at most a row, the lower lanes having more, unless a lane has more than its
// share before.
func Lanes(shards, before []uint64, last bool) (pieces []Piece, after []uint64) {
	after = slices.Clone(before)
	put := func(lane int, shard int, from, rows uint64) {
		pieces = append(pieces, Piece{
			Shard: uint32(shard), From: from, Rows: rows, Lane: uint32(lane),
			First: after[lane],
		})
		after[lane] += rows
	}
	if !last {
		fewest := newTurns(len(after), func(a, b int) int { return cmp.Compare(after[a], after[b]) })
		for i, rows := range shards {
			if rows > 0 {
				put(fewest.first(), i, 0, rows)
				fewest.moved()
			}
		}
		return pieces, after
	}
	total := uint64(0)
	for _, rows := range shards {
		total += rows
	}
	missing := missing(before, total)
	neediest := newTurns(len(after), func(a, b int) int { return cmp.Compare(missing[b], missing[a]) })
	for i, rows := range shards {
		for from := uint64(0); from < rows; {
			lane := neediest.first()
			n := min(rows-from, missing[lane])
			put(lane, i, from, n)
			missing[lane] -= n
			from += n
			neediest.moved()
		}
	}
	return pieces, after
}

// turns says which lane is the next, of several the lowest: a heap, so that a turn costs the logarithm of their number.
type turns struct {
	lanes   []int
	compare func(a, b int) int
}

func newTurns(lanes int, compare func(a, b int) int) *turns {
	t := &turns{lanes: make([]int, lanes), compare: compare}
	for i := range t.lanes {
		t.lanes[i] = i
	}
	heap.Init(t)
	return t
}

func (t *turns) first() int { return t.lanes[0] }

// moved says that the first lane may not be the first any more.
func (t *turns) moved() { heap.Fix(t, 0) }

// Len, Less, Swap, Push and Pop implement heap.Interface. All lanes stay.
func (t *turns) Len() int { return len(t.lanes) }

func (t *turns) Less(i, j int) bool {
	return cmp.Or(t.compare(t.lanes[i], t.lanes[j]), t.lanes[i]-t.lanes[j]) < 0
}
func (t *turns) Swap(i, j int) { t.lanes[i], t.lanes[j] = t.lanes[j], t.lanes[i] }
func (t *turns) Push(any)      {}
func (t *turns) Pop() any      { return nil }

// missing spreads rows over lanes so that those with the fewest end with as many, or with one more, and returns what
// each gets.
func missing(before []uint64, rows uint64) []uint64 {
	byRows := make([]int, len(before))
	for i := range byRows {
		byRows[i] = i
	}
	slices.SortStableFunc(byRows, func(a, b int) int { return cmp.Compare(before[a], before[b]) })
	// The n lanes with the fewest rows come to a level that the others have already.
	n, sum := 0, rows
	for n < len(byRows) && (n == 0 || sum >= uint64(n)*before[byRows[n]]) {
		sum += before[byRows[n]]
		n++
	}
	level, more := sum/uint64(n), sum%uint64(n)
	filled := byRows[:n]
	slices.Sort(filled)
	out := make([]uint64, len(before))
	for _, lane := range filled {
		out[lane] = level - before[lane]
		if more > 0 {
			out[lane]++
			more--
		}
	}
	return out
}
