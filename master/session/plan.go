package session

import (
	"math/bits"
	"slices"

	"github.com/penstock-ml/penstock/api/position"
)

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
			b, planned := s.blocks.find(p)
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
	if e := s.blocks.epoch(c.Epoch); e != nil && e.blocks > 0 && e.blocks != c.Blocks {
		return Reply{}, invalid("planned block %d/%d says that the epoch has %d blocks, an earlier one said %d", c.Epoch, c.Block, c.Blocks, e.blocks)
	}
	if have, ok := s.blocks.find(b.start()); ok {
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
	s.blocks.list = slices.Insert(s.blocks.list, s.blocks.search(b.start()), b)
	s.blocks.count(b, c.Rows)
	s.absorb(b)
	s.skipEmpty()
	s.countPlanned(b)
	s.closeEpochs(ch)
	return Reply{}, nil
}

// dropIdleBlocks forgets the blocks below the frontier of which nothing is held or returned. To look at what all ranks hold takes
// long, so that it is done for each eighth of the blocks in memory, at most, that is planned.
func (s *State) dropIdleBlocks() {
	if eighth := int64(1) << max(0, bits.Len(uint(len(s.blocks.list)))-4); s.blocks.seen.blocks%eighth != 0 {
		return
	}
	busy := make([]bool, len(s.blocks.list))
	mark := func(set position.Set) {
		for _, iv := range set {
			for i := s.blocks.search(iv.From); i < len(s.blocks.list) && s.blocks.list[i].start().Less(iv.To); i++ {
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
	s.blocks.list = slices.DeleteFunc(s.blocks.list, func(block) bool { i++; return !busy[i] })
}

// absorb gives base and returned canonical borders, now that b is planned: a state that was restored may have others,
// behind the last shard of a block or the last block of an epoch. If b is empty, what is returned of it is moved to
// base.
func (s *State) absorb(b block) {
	base := s.blocks.canonicalSet(s.base)
	s.returned = s.blocks.canonicalSet(s.returned)
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
	for b, ok := s.blocks.find(s.frontier); ok && s.frontier.Shard >= b.shards; b, ok = s.blocks.find(s.frontier) {
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
