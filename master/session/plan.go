package session

import (
	"math/bits"
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

// epochPlan sums up what was planned of an epoch.
type epochPlan struct {
	epoch, blocks, planned uint32
	rows                   int64
	lanes                  []uint64 // by lane: output rows of planned blocks
	left                   uint64   // output rows of planned blocks that are not consumed, where they are shared out in order FAST
}

// seen counts all blocks that were planned, for the estimate of those to come.
type seen struct{ blocks, shards int64 }

func (b block) start() position.Position { return position.Position{Epoch: b.epoch, Block: b.index} }

// end is the canonical end of the block: the start of the next one, or of the next epoch.
func (b block) end() position.Position {
	if b.index+1 < b.blocks {
		return position.Position{Epoch: b.epoch, Block: b.index + 1}
	}
	return position.Position{Epoch: b.epoch + 1}
}

// advance is the shard border n shards behind the start of p's shard, at most the block's end.
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

// search returns the index in s.blocks of the first block that ends behind p.
func (s *State) search(p position.Position) int {
	return sort.Search(len(s.blocks), func(i int) bool {
		b := s.blocks[i]
		return b.epoch > p.Epoch || b.epoch == p.Epoch && b.index >= p.Block
	})
}

// block returns the planned block in which p lies.
func (s *State) block(p position.Position) (block, bool) {
	if i := s.search(p); i < len(s.blocks) && s.blocks[i].epoch == p.Epoch && s.blocks[i].index == p.Block {
		return s.blocks[i], true
	}
	return block{}, false
}

func (s *State) epochPlan(epoch uint32) *epochPlan {
	for i := range s.epochs {
		if s.epochs[i].epoch == epoch {
			return &s.epochs[i]
		}
	}
	return nil
}

// canonical moves a place behind the last shard of a block or the last block of an epoch to the start of what follows.
// The start of an empty block stays: it is the end of the one before.
func (s *State) canonical(p position.Position) position.Position {
	if b, ok := s.block(p); ok && p.Shard > 0 && p.Shard >= b.shards {
		return b.end()
	}
	if e := s.epochPlan(p.Epoch); e != nil && p.Block >= e.blocks {
		return position.Position{Epoch: p.Epoch + 1}
	}
	return p
}

func (s *State) canonicalSet(set position.Set) position.Set {
	moved := func(i position.Interval) bool { return s.canonical(i.From) != i.From || s.canonical(i.To) != i.To }
	if !slices.ContainsFunc(set, moved) {
		return set
	}
	out := slices.Clone(set)
	for i, iv := range out {
		out[i] = position.Interval{From: s.canonical(iv.From), To: s.canonical(iv.To)}
	}
	return position.NewSet(out...)
}

// ungranted is what nobody was ever granted.
func (s *State) ungranted() position.Interval {
	return position.Interval{From: s.frontier, To: position.Position{Epoch: s.id.Epochs}}
}

// NeedsPlan returns the block to plan next, so that grants need not wait: the block of the next positions to grant
// and the one behind it, and more while they have fewer than two shards for each rank.
func (s *State) NeedsPlan() (epoch, index uint32, ok bool) {
	if s.failure != "" {
		return 0, 0, false
	}
	if s.id.Lanes > 0 {
		return s.needsLanes()
	}
	var ahead struct {
		block          position.Position
		blocks, shards int64
	}
	reach := s.reach()
	for i := range len(s.returned) + 1 {
		free := s.ungranted()
		if i < len(s.returned) {
			free = s.returned[i]
		}
		for p := free.From; p.Less(free.To) && p.Epoch <= reach; {
			if s.drops() && s.told(p.Epoch) { // what is left of it may be left for good
				p = position.Position{Epoch: p.Epoch + 1}
				continue
			}
			if start := (position.Position{Epoch: p.Epoch, Block: p.Block}); ahead.blocks == 0 || start != ahead.block {
				if ahead.blocks >= 2 && ahead.shards >= 2*int64(s.world) && !s.starved() {
					return 0, 0, false
				}
				ahead.block = start
				ahead.blocks++
			}
			b, planned := s.block(p)
			if !planned {
				return p.Epoch, p.Block, true
			}
			to := least(b.end(), free.To)
			ahead.shards += b.touched(p, to)
			p = to
		}
	}
	return 0, 0, false
}

func (c Planned) apply(s *State, ch *Changes) (Reply, error) {
	b := block{epoch: c.Epoch, index: c.Block, blocks: c.Blocks, shards: c.Shards}
	b.counts = s.countsOf(c.Outputs)
	if err := b.checkOutputs(); err != nil {
		return Reply{}, invalid("planned %w", err)
	}
	if c.Block >= c.Blocks || c.Epoch >= s.id.Epochs {
		return Reply{}, invalid("planned block %d/%d: the epoch has %d blocks, the session %d epochs", c.Epoch, c.Block, c.Blocks, s.id.Epochs)
	}
	if c.Epoch < s.closed {
		return Reply{}, nil
	}
	if e := s.epochPlan(c.Epoch); e != nil && e.blocks > 0 && e.blocks != c.Blocks {
		return Reply{}, invalid("planned block %d/%d says that the epoch has %d blocks, an earlier one said %d", c.Epoch, c.Block, c.Blocks, e.blocks)
	}
	if have, ok := s.block(b.start()); ok {
		if !have.same(b) {
			return Reply{}, invalid("block %d/%d was planned with %d shards, and now with %d", c.Epoch, c.Block, have.shards, b.shards)
		}
		return Reply{}, nil
	}
	if s.id.Lanes > 0 {
		s.planLanes(b, c.Rows, ch)
		return Reply{}, nil
	}
	ch.Head = true
	s.dropIdleBlocks()
	s.blocks = slices.Insert(s.blocks, s.search(b.start()), b)
	s.count(b, c.Rows)
	s.absorb(b)
	s.skipEmpty()
	s.countPlanned(b)
	s.closeEpochs(ch)
	return Reply{}, nil
}

func (s *State) count(b block, rows int64) {
	s.seen.blocks++
	s.seen.shards += int64(b.shards)
	e := s.epochPlan(b.epoch)
	if e == nil {
		s.epochs = append(s.epochs, epochPlan{epoch: b.epoch, blocks: b.blocks})
		e = &s.epochs[len(s.epochs)-1]
	}
	e.blocks = b.blocks // a restored one does not know
	if b.index >= e.planned {
		e.planned = b.index + 1
		e.rows += rows
	}
	slices.SortFunc(s.epochs, func(a, b epochPlan) int { return int(a.epoch) - int(b.epoch) })
}

// dropIdleBlocks forgets the blocks below the frontier of which nothing is held or returned. To look at what all ranks hold takes
// long, so that it is done for each eighth of the blocks in memory, at most, that is planned.
func (s *State) dropIdleBlocks() {
	if eighth := int64(1) << max(0, bits.Len(uint(len(s.blocks)))-4); s.seen.blocks%eighth != 0 {
		return
	}
	busy := make([]bool, len(s.blocks))
	mark := func(set position.Set) {
		for _, iv := range set {
			for i := s.search(iv.From); i < len(s.blocks) && s.blocks[i].start().Less(iv.To); i++ {
				busy[i] = true
			}
		}
	}
	mark(s.returned)
	mark(position.Set{s.ungranted()})
	for _, k := range s.ranks {
		if k != nil {
			mark(k.held)
		}
	}
	i := -1
	s.blocks = slices.DeleteFunc(s.blocks, func(block) bool { i++; return !busy[i] })
}

// absorb gives base and returned canonical borders, now that b is planned: a state that was restored may have others,
// behind the last shard of a block or the last block of an epoch. If b is empty, what is returned of it is moved to
// base.
func (s *State) absorb(b block) {
	base := s.canonicalSet(s.base)
	s.returned = s.canonicalSet(s.returned)
	if b.shards == 0 {
		all := position.Set{{From: b.start(), To: b.end()}}
		base = base.Union(s.returned.Intersect(all))
		s.returned = s.returned.Subtract(all)
	}
	if !base.Equal(s.base) {
		s.base = base
		s.baseVersion++
	}
}

// skipEmpty moves the frontier past blocks without shards.
func (s *State) skipEmpty() {
	for b, ok := s.block(s.frontier); ok && s.frontier.Shard >= b.shards; b, ok = s.block(s.frontier) {
		s.base = s.base.Union(position.Set{{From: s.frontier, To: b.end()}})
		s.baseVersion++
		s.frontier = b.end()
	}
}

func least(p, q position.Position) position.Position {
	if q.Less(p) {
		return q
	}
	return p
}
