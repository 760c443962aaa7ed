package session

import (
	"math"
	"math/bits"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// fast is what the endings of order FAST share: ranks are granted runs of shards as they ask, and give back what they
// do not read.
type fast struct{ *State }

// nextEpoch is the epoch of the lowest position that nobody was granted, and whether it may be granted: rows of one
// epoch beyond the open one may be buffered.
func (s fast) nextEpoch() (uint32, bool) {
	epoch := s.frontier.Epoch
	if len(s.returned) > 0 {
		epoch = s.returned[0].From.Epoch
	}
	return epoch, epoch < s.id.Epochs && epoch <= s.reach() && s.failure == ""
}

// drained reports whether all of the open epoch is granted.
func (s fast) drained() bool {
	epoch, _ := s.nextEpoch()
	return epoch > s.closed
}

// stuck reports whether a rank has only rows that it may not hand over yet: it is granted some of the open epoch
// although its buffers may be full, or the epoch might never close.
func (s fast) stuck(k *rank) bool {
	return len(k.held) > 0 && k.held[0].From.Epoch > s.closed && k.steps.Epoch <= s.closed && !s.drained()
}

// more grants a rank what it wants or needs, of the epoch that its training loop is in, or of the next one: of the
// first one of which it lacks rows, and which is not passed over.
func (s fast) more(r uint32, k *rank, streams uint32, n needs, passed, wants func(epoch uint32) bool, ch *Changes) {
	if s.failure != "" {
		return
	}
	reach := s.reach()
	for epoch := max(k.steps.Epoch, s.closed); epoch <= reach && epoch < s.id.Epochs; epoch++ {
		lacks := s.lacks(k, epoch, n)
		if lacks == 0 || passed(epoch) {
			continue
		}
		if (wants(epoch) || epoch == s.closed && s.stuck(k)) && s.grantRows(k, epoch, int64(streams), lacks, ch) {
			k.revision++
			ch.Head = true
			ch.rank(r)
		}
		return
	}
}

// lacks is how many rows of an epoch a rank may be granted.
func (s fast) lacks(k *rank, epoch uint32, n needs) uint64 {
	need := n[epoch-s.closed]
	if !need.known {
		return math.MaxUint64
	}
	have := s.blocks.rowsIn(within(k.held, epoch).Subtract(k.releasing))
	return max(need.rows, have) - have
}

func (s fast) needsPlan() (epoch, index uint32, ok bool) {
	return s.nextBlock(func(uint32) bool { return false }, func() bool { return false })
}

// nextBlock is needsPlan. given are epochs of which no more is granted, and starved reports whether a rank lacks rows
// whatever is planned.
func (s fast) nextBlock(given func(epoch uint32) bool, starved func() bool) (epoch, index uint32, ok bool) {
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
			if given(p.Epoch) {
				p = position.Position{Epoch: p.Epoch + 1}
				continue
			}
			if start := (position.Position{Epoch: p.Epoch, Block: p.Block}); ahead.blocks == 0 || start != ahead.block {
				if ahead.blocks >= 2 && ahead.shards >= 2*int64(s.world) && !starved() {
					return 0, 0, false
				}
				ahead.block = start
				ahead.blocks++
			}
			b, planned := s.blocks.find(p)
			if !planned {
				return p.Epoch, p.Block, true
			}
			to := earlier(b.end(), free.To)
			ahead.shards += b.touched(p, to)
			p = to
		}
	}
	return 0, 0, false
}

// plan takes in a block.
func (s fast) plan(b block, rows int64, ch *Changes) {
	ch.Head = true
	s.dropIdleBlocks()
	s.blocks.list = slices.Insert(s.blocks.list, s.blocks.search(b.start()), b)
	s.blocks.count(b, rows)
	s.absorb(b)
	s.skipEmpty()
}

// dropIdleBlocks forgets the blocks below the frontier of which nothing is held or returned. To look at what all ranks
// hold takes long, so that it is done for each eighth of the blocks in memory, at most, that is planned.
func (s fast) dropIdleBlocks() {
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

// whollyPlanned reports whether all is planned of an epoch that is not consumed.
func (s fast) whollyPlanned(epoch uint32) bool {
	end := position.Position{Epoch: epoch + 1}
	if e := s.blocks.epoch(epoch); e != nil && e.blocks > 0 && s.frontier.Less(end) { // most often its last block tells
		if _, ok := s.blocks.find(position.Position{Epoch: epoch, Block: e.blocks - 1}); !ok {
			return false
		}
	}
	free := append(within(s.returned, epoch), within(position.Set{s.ungranted()}, epoch)...)
	for _, iv := range free {
		for p := iv.From; p.Less(iv.To); {
			b, ok := s.blocks.find(p)
			if !ok {
				return false
			}
			p = b.end()
		}
	}
	return true
}

// left is the number of output rows of planned blocks of an epoch that are not consumed.
func (s fast) left(epoch uint32) uint64 {
	if e := s.blocks.epoch(epoch); e != nil {
		return e.left
	}
	return 0
}

// answer says what a rank holds.
func (s fast) answer(_ uint32, k *rank, _ *Steps, r Reply) Reply {
	if r.Drained = s.drained(); !r.Unchanged {
		r.Grants = s.blocks.split(k.held)
	}
	return r
}

func (s fast) pieces(uint32, *rank) []Piece { return nil }
func (s fast) starts(*rank) []LaneStart     { return nil }
func (s fast) changes() uint64              { return 0 }

// admit checks what a rank reports.
func (s fast) admit(r uint32, n *Steps, _ uint32) error {
	if n != nil && (n.Epoch > s.closed || n.Handed > n.Ready || n.Ready > maxSteps) {
		return invalid("rank %d reports %+v, with %d epochs closed: the trainer or its client is broken",
			r, *n, s.closed)
	}
	return nil
}

func (s fast) ahead() uint32                     { return 1 }
func (s fast) leaving(*Changes)                  {}
func (s fast) rest(epoch uint32, _ uint64) int64 { return s.free(within(s.returned, epoch), epoch) }
func (s fast) skips() bool                       { return true }
func (s fast) consumed(position.Set)             {}
func (s fast) ended(uint64) (EpochSteps, bool)   { return EpochSteps{}, false }
func (s fast) load(*pb.SessionHead) error        { return nil }

// between reports whether nobody has taken anything of the open epoch.
func (s fast) between() bool {
	start := position.Position{Epoch: s.closed}
	return len(from(s.base, start)) == 0 && !slices.ContainsFunc(s.ranks, func(k *rank) bool {
		return k != nil && (k.steps.Epoch > s.closed || k.steps.Epoch == s.closed && k.steps.Handed > 0 ||
			len(from(k.consumed, start)) > 0)
	})
}

// granted reports whether a rank was ever granted anything: grants move its revision ahead of its incarnation, which
// starts move along.
func (s fast) granted(k *rank) bool { return k.revision != k.incarnation }

// admitState checks a state that is brought against the order.
func (s fast) admitState(p Checkpoint) error {
	if p.GlobalBatch > 0 {
		return refused(
			"the state of rank %d is of deterministic order, the session's is fast; open a session whose spec says "+
				"order: deterministic", p.Rank)
	}
	return nil
}

func (s fast) fit(m merged, world uint32) (merged, error) { return m, s.id.fitsWorld(world) }

// rewind has granting begin after what the states consumed.
func (s fast) rewind(m merged) {
	s.blocks.forget(s.closed)
	s.advanceFrontier()
	s.returned = position.Set{{From: position.Position{Epoch: m.closed}, To: s.frontier}}.Subtract(m.base)
	for _, b := range s.blocks.list {
		s.absorb(b)
	}
	s.skipEmpty()
}

// forget forgets what nobody gets of epochs that are closed.
func (s fast) forget(start position.Position) {
	s.returned = from(s.returned, start)
	if s.frontier.Less(start) {
		s.frontier = start
		s.skipEmpty()
	}
}

// advanceFrontier moves the frontier to the end of the epoch in which the base ends, if that lies after it. What is
// not consumed there becomes returned, and is planned as such. No block can begin or end inside that part.
func (s fast) advanceFrontier() {
	start := position.Position{Epoch: s.closed}
	if s.frontier.Less(start) {
		s.frontier = start
	}
	if len(s.base) == 0 {
		return
	}
	end := s.base[len(s.base)-1].To
	if !s.frontier.Less(end) {
		return
	}
	if s.frontier = end; end != (position.Position{Epoch: end.Epoch}) {
		s.frontier = position.Position{Epoch: end.Epoch + 1}
	}
}

// absorb gives base and returned canonical borders, now that b is planned: a state that was restored may have others,
// after the last shard of a block or the last block of an epoch. If b is empty, what is returned of it is moved to
// base.
func (s fast) absorb(b block) {
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
func (s fast) skipEmpty() {
	for b, ok := s.blocks.find(s.frontier); ok && s.frontier.Shard >= b.shards; b, ok = s.blocks.find(s.frontier) {
		s.base = s.base.Union(position.Set{{From: s.frontier, To: b.end()}})
		s.baseVersion++
		s.frontier = b.end()
	}
}

// countLeft counts the rows that are left of each epoch.
func (s fast) countLeft() {
	sets := []position.Set{s.returned, {s.ungranted()}}
	for _, k := range s.ranks {
		if k != nil {
			sets = append(sets, k.held)
		}
	}
	for i := range s.blocks.epochs {
		e := &s.blocks.epochs[i]
		e.left = 0
		for _, set := range sets {
			e.left += s.blocks.rowsIn(within(set, e.epoch))
		}
	}
}

// countPlanned adds the rows that are left of a block that is planned now.
func (s fast) countPlanned(b block) {
	all := position.Set{{From: b.start(), To: b.end()}}
	s.blocks.epoch(b.epoch).left += s.blocks.rowsIn(s.returned.Intersect(all)) +
		s.blocks.rowsIn(all.Intersect(position.Set{s.ungranted()}))
}

// countConsumed takes what was consumed off what is left.
func (s fast) countConsumed(news position.Set) {
	for i := range s.blocks.epochs {
		s.blocks.epochs[i].left -= s.blocks.rowsIn(within(news, s.blocks.epochs[i].epoch))
	}
}

// consumedAll reports whether an epoch is consumed: by the partition, whether nothing else is left of it.
func (s fast) consumedAll(epoch uint32) bool {
	end := position.Position{Epoch: epoch + 1}
	if s.frontier.Less(end) || before(s.returned, end) {
		return false
	}
	return !slices.ContainsFunc(s.ranks, func(k *rank) bool { return k != nil && before(k.held, end) })
}

// ungranted is what nobody was ever granted.
func (s fast) ungranted() position.Interval {
	return position.Interval{From: s.frontier, To: position.Position{Epoch: s.id.Epochs}}
}
