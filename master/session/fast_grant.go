package session

import (
	"math"

	"github.com/penstock-ml/penstock/api/position"
)

// grantRows gives a rank shards of an epoch, cut where it has so many rows.
func (s fast) grantRows(k *rank, epoch uint32, streams int64, rows uint64, ch *Changes) bool {
	s.passTo(epoch, ch)
	got := s.take(epoch, streams)
	if rows < math.MaxUint64 {
		given := s.blocks.firstRows(got, rows)
		s.returned = s.returned.Union(got.Subtract(given))
		got = given
	}
	k.held = k.held.Union(got)
	return len(got) > 0
}

// take takes a run of shards of an epoch, returned ones first.
func (s fast) take(epoch uint32, streams int64) position.Set {
	returned := within(s.returned, epoch)
	got, n := s.takeReturned(returned, s.run(returned, epoch, streams))
	return got.Union(s.takeFrontier(epoch, n))
}

// run is the number of shards to grant at once, of which some are returned: a quarter of an even share of what remains
// of the epoch, so that runs get shorter towards its end; but enough for all streams, as long as each rank can have as
// many.
func (s fast) run(returned position.Set, epoch uint32, streams int64) int64 {
	remaining, w := s.free(returned, epoch), int64(s.world)
	return max(1, (remaining+4*w-1)/(4*w), min(streams, remaining/w))
}

// takeReturned takes up to n shards, cut at their borders, from those of the returned positions whose blocks are
// planned. It returns them and how many more may be taken.
func (s fast) takeReturned(returned position.Set, n int64) (position.Set, int64) {
	var got []position.Interval
	for _, iv := range returned {
		for p := iv.From; n > 0 && p.Less(iv.To); {
			b, ok := s.blocks.find(p)
			if !ok {
				break
			}
			to := earlier(b.advance(p, n), iv.To)
			got = append(got, position.Interval{From: p, To: to})
			n -= b.touched(p, to)
			p = to
		}
	}
	set := position.NewSet(got...)
	s.returned = s.returned.Subtract(set)
	return set, n
}

// takeFrontier takes up to n planned shards of an epoch that were never granted.
func (s fast) takeFrontier(epoch uint32, n int64) position.Set {
	var got []position.Interval
	for n > 0 && s.frontier.Epoch == epoch {
		b, ok := s.blocks.find(s.frontier)
		if !ok {
			break
		}
		to := b.advance(s.frontier, n)
		got = append(got, position.Interval{From: s.frontier, To: to})
		n -= b.touched(s.frontier, to)
		s.frontier = to
		s.skipEmpty()
	}
	return position.NewSet(got...)
}

// passTo moves the frontier to an epoch, from one that is wholly planned.
func (s fast) passTo(epoch uint32, ch *Changes) {
	start := position.Position{Epoch: epoch}
	if !s.frontier.Less(start) || !s.whollyPlanned(epoch-1) {
		return
	}
	s.returned = s.returned.Union(position.Set{{From: s.frontier, To: start}})
	s.frontier = start
	ch.Head = true
	for _, b := range s.blocks.list {
		s.absorb(b)
	}
	s.skipEmpty()
}

// trim asks a rank for what it holds above its need.
func (s fast) trim(r uint32, k *rank, n needs, ch *Changes) {
	if !n[0].known && !n[1].known {
		return
	}
	asked := k.releasing
	for i, need := range n {
		if !need.known {
			continue
		}
		held := within(k.held, s.closed+uint32(i))
		if s.blocks.rowsIn(held) > need.rows {
			asked = asked.Union(held.Subtract(s.blocks.firstRows(held, need.rows)))
		}
	}
	s.ask(r, k, asked, ch)
}
