package session

import (
	"slices"
	"sort"

	"github.com/penstock-ml/penstock/api/position"
)

// block is a planned block.
type block struct {
	epoch, index uint32
	blocks       uint32 // of the epoch
	shards       uint32
	counts       *counts // nil: not known
	lanes        *lanes  // nil: order FAST
}

// same reports whether b says of a block what o says. Outputs follow from the block.
func (b block) same(o block) bool {
	b.counts, o.counts, b.lanes, o.lanes = nil, nil, nil, nil
	return b == o
}

func (b block) start() position.Position { return position.Position{Epoch: b.epoch, Block: b.index} }

// end is the canonical end of the block: the start of the next one, or of the next epoch.
func (b block) end() position.Position {
	if b.index+1 < b.blocks {
		return position.Position{Epoch: b.epoch, Block: b.index + 1}
	}
	return position.Position{Epoch: b.epoch + 1}
}

// advance is the shard border n shards after the start of p's shard, at most the block's end.
func (b block) advance(p position.Position, n int64) position.Position {
	if int64(p.Shard)+n >= int64(b.shards) {
		return b.end()
	}
	return position.Position{Epoch: p.Epoch, Block: p.Block, Shard: p.Shard + uint32(n)}
}

// touched counts the shards that [from, to) of the block has a part of.
func (b block) touched(from, to position.Position) int64 {
	if to.Epoch != b.epoch || to.Block != b.index {
		return int64(b.shards) - int64(from.Shard)
	}
	n := int64(to.Shard) - int64(from.Shard)
	if to != to.ShardStart() {
		n++
	}
	return n
}

// epochPlan sums up what was planned of an epoch.
type epochPlan struct {
	epoch, blocks, planned uint32
	rows                   int64
	lanes                  []uint64 // by lane: output rows of planned blocks
	// output rows of planned blocks that are not consumed, where they are shared out in order FAST
	left uint64
}

// seen counts all blocks that were planned, for the estimate of those to come.
type seen struct{ blocks, shards int64 }

// plannedBlocks are the planned blocks in flight, and a few that no longer are, and what was planned of epochs.
type plannedBlocks struct {
	list   []block // ascending
	epochs []epochPlan
	seen   seen
}

// search returns the index in all.list of the first block that ends after p.
func (all *plannedBlocks) search(p position.Position) int {
	return sort.Search(len(all.list), func(i int) bool {
		b := all.list[i]
		return b.epoch > p.Epoch || b.epoch == p.Epoch && b.index >= p.Block
	})
}

// find returns the planned block in which p lies.
func (all *plannedBlocks) find(p position.Position) (block, bool) {
	if i := all.search(p); i < len(all.list) && all.list[i].epoch == p.Epoch && all.list[i].index == p.Block {
		return all.list[i], true
	}
	return block{}, false
}

func (all *plannedBlocks) epoch(epoch uint32) *epochPlan {
	for i := range all.epochs {
		if all.epochs[i].epoch == epoch {
			return &all.epochs[i]
		}
	}
	return nil
}

// canonical moves a place after the last shard of a block or the last block of an epoch to the start of what follows.
// The start of an empty block stays: it is the end of the one before.
func (all *plannedBlocks) canonical(p position.Position) position.Position {
	if b, ok := all.find(p); ok && p.Shard > 0 && p.Shard >= b.shards {
		return b.end()
	}
	if e := all.epoch(p.Epoch); e != nil && p.Block >= e.blocks {
		return position.Position{Epoch: p.Epoch + 1}
	}
	return p
}

func (all *plannedBlocks) canonicalSet(set position.Set) position.Set {
	moved := func(i position.Interval) bool { return all.canonical(i.From) != i.From || all.canonical(i.To) != i.To }
	if !slices.ContainsFunc(set, moved) {
		return set
	}
	out := slices.Clone(set)
	for i, iv := range out {
		out[i] = position.Interval{From: all.canonical(iv.From), To: all.canonical(iv.To)}
	}
	return position.NewSet(out...)
}

func (all *plannedBlocks) count(b block, rows int64) {
	all.seen.blocks++
	all.seen.shards += int64(b.shards)
	e := all.epoch(b.epoch)
	if e == nil {
		all.epochs = append(all.epochs, epochPlan{epoch: b.epoch, blocks: b.blocks})
		e = &all.epochs[len(all.epochs)-1]
	}
	e.blocks = b.blocks // a restored one does not know
	if b.index >= e.planned {
		e.planned = b.index + 1
		e.rows += rows
	}
	slices.SortFunc(all.epochs, func(a, b epochPlan) int { return int(a.epoch) - int(b.epoch) })
}

// forget forgets the plans of epochs before one.
func (all *plannedBlocks) forget(epoch uint32) {
	all.list = slices.DeleteFunc(all.list, func(b block) bool { return b.epoch < epoch })
	all.epochs = slices.DeleteFunc(all.epochs, func(e epochPlan) bool { return e.epoch < epoch })
}

// split cuts a set at shard borders. Its blocks are in memory.
func (all *plannedBlocks) split(set position.Set) []position.Interval {
	var out []position.Interval
	for _, iv := range set {
		for p := iv.From; p.Less(iv.To); {
			b, ok := all.find(p)
			if !ok {
				break // Check finds it
			}
			to := earlier(b.advance(p, 1), iv.To)
			out = append(out, position.Interval{From: p, To: to})
			p = to
		}
	}
	return out
}

// estimate counts the shards that [from, to), of one epoch, has a part of. Blocks that are not in memory count as
// the average of those seen.
func (all *plannedBlocks) estimate(from, to position.Position) int64 {
	b, ok := all.find(from)
	if ok && !b.end().Less(to) {
		return b.touched(from, to)
	}
	last, tail := to.Block, int64(to.Shard)
	if e := all.epoch(from.Epoch); to.Epoch > from.Epoch {
		last, tail = from.Block+1, 0
		if e != nil {
			last = e.blocks
		}
	}
	average := int64(1)
	if all.seen.blocks > 0 {
		average = max(1, all.seen.shards/all.seen.blocks)
	}
	n := (int64(last)-int64(from.Block))*average - int64(from.Shard) + tail
	for i := all.search(from); i < len(all.list) && all.list[i].epoch == from.Epoch && all.list[i].index < last; i++ {
		n += int64(all.list[i].shards) - average
	}
	return max(n, 1)
}

// rowsIn is how many output rows a set has in blocks that are in memory.
func (all *plannedBlocks) rowsIn(set position.Set) uint64 {
	n, i := uint64(0), 0
	for _, iv := range set {
		if i < len(all.list) && all.list[i].has(iv.From) && all.list[i].has(iv.To) { // most often
			n += all.list[i].counts.before(iv.To) - all.list[i].counts.before(iv.From)
			continue
		}
		for i = all.search(iv.From); i < len(all.list) && all.list[i].start().Less(iv.To); i++ {
			n += all.list[i].before(iv.To) - all.list[i].before(iv.From)
		}
		i = max(0, i-1)
	}
	return n
}

// firstRows is the part of a set that has its first n output rows, or all of it if it has no more. Windows without rows
// that stand between two parts belong to the first one.
func (all *plannedBlocks) firstRows(set position.Set, n uint64) position.Set {
	if n == 0 {
		return nil
	}
	for _, iv := range set {
		for i := all.search(iv.From); i < len(all.list) && all.list[i].start().Less(iv.To); i++ {
			b := all.list[i]
			from := b.before(iv.From)
			if rows := b.before(iv.To) - from; rows < n {
				n -= rows
				continue
			}
			return set.Intersect(position.Set{{To: b.at(from + n)}})
		}
	}
	return set
}

// window is where the window begins and ends that a position lies inside of; both are the position if it lies between
// two.
func (all *plannedBlocks) window(p position.Position) (from, to position.Position) {
	b, ok := all.find(p)
	if p.K == 0 || !ok || b.counts == nil {
		return p, p
	}
	from = p
	from.K = 0
	return from, b.at(b.before(from) + uint64(b.counts.outputs[p.Shard][p.Window]))
}
