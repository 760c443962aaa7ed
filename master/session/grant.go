package session

import (
	"math"

	"github.com/penstock-ml/penstock/api/position"
)

// nextEpoch is the epoch of the lowest position that nobody was granted, and whether it may be granted: rows of one
// epoch beyond the open one may be buffered.
func (s *State) nextEpoch() (uint32, bool) {
	epoch := s.frontier.Epoch
	if len(s.returned) > 0 {
		epoch = s.returned[0].From.Epoch
	}
	return epoch, epoch < s.id.Epochs && epoch <= s.reach() && s.failure == ""
}

// reach is the last epoch that may be planned and granted: the one beyond the open one, so that loops need not wait at an epoch's end. Where
// nothing limits the epochs, many jobs read one alone: rows beyond the open one are granted once a loop has come to the second one, and
// none that is more than one beyond where the loops are, for epochs without any row would close one after the other.
func (s *State) reach() uint32 {
	switch {
	case s.id.Epochs != noLimit:
		return s.closed + 1
	case s.closed == 0:
		return 0
	}
	at := s.begun.Epoch
	for _, k := range s.ranks {
		if at >= s.closed {
			break
		}
		if k != nil {
			at = max(at, k.steps.Epoch)
		}
	}
	if at >= s.closed {
		return s.closed + 1
	}
	return min(s.closed, at+1)
}

// drained reports whether all of the open epoch is granted.
func (s *State) drained() bool {
	epoch, _ := s.nextEpoch()
	return epoch > s.closed
}

// stuck reports whether a rank has only rows that it may not hand over yet: it is granted some of the open epoch
// although its buffers may be full, or the epoch might never close.
func (s *State) stuck(k *rank) bool {
	return len(k.held) > 0 && k.held[0].From.Epoch > s.closed && k.steps.Epoch <= s.closed && !s.drained()
}

// more grants a rank what it wants or needs, and reports whether that is anything: of the epoch that its training loop is in, or of the
// next one if it needs no more of that, or all is granted.
func (s *State) more(k *rank, c Sync, n needs, ch *Changes) bool {
	if s.id.Lanes > 0 || s.failure != "" {
		return false
	}
	reach := s.reach()
	for epoch := max(k.steps.Epoch, s.closed); epoch <= reach && epoch < s.id.Epochs; epoch++ {
		if !s.drops() && epoch == s.closed && s.drained() {
			continue
		}
		if epoch == s.closed && s.keptForIdle(k) {
			continue
		}
		lacks := s.lacks(k, epoch, n)
		if lacks == 0 {
			continue
		}
		wants := c.WantsMore || s.drops() && len(within(k.held, epoch)) == 0 || epoch == s.closed && s.stuck(k)
		return wants && s.grantRows(k, epoch, int64(c.Streams), lacks, ch)
	}
	return false
}

// lacks is how many rows of an epoch a rank may be granted.
func (s *State) lacks(k *rank, epoch uint32, n needs) uint64 {
	need := n[epoch-s.closed]
	if !need.known {
		return math.MaxUint64
	}
	have := s.blocks.rowsIn(within(k.held, epoch).Subtract(k.releasing))
	return max(need.rows, have) - have
}

// grantRows gives a rank shards of an epoch, cut where it has so many rows.
func (s *State) grantRows(k *rank, epoch uint32, streams int64, rows uint64, ch *Changes) bool {
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
func (s *State) take(epoch uint32, streams int64) position.Set {
	returned := within(s.returned, epoch)
	got, n := s.takeReturned(returned, s.run(returned, epoch, streams))
	return got.Union(s.takeFrontier(epoch, n))
}

// run is the number of shards to grant at once, of which some are returned: a quarter of an even share of what remains of the epoch, so that
// runs get shorter towards its end; but enough for all streams, as long as each rank can have as many.
func (s *State) run(returned position.Set, epoch uint32, streams int64) int64 {
	remaining, w := s.free(returned, epoch), int64(s.world)
	return max(1, (remaining+4*w-1)/(4*w), min(streams, remaining/w))
}

// free is about how many shards of an epoch nobody holds, of which some are returned.
func (s *State) free(returned position.Set, epoch uint32) (shards int64) {
	for _, iv := range returned {
		shards += s.blocks.estimate(iv.From, iv.To)
	}
	if s.frontier.Epoch == epoch {
		shards += s.blocks.estimate(s.frontier, position.Position{Epoch: epoch + 1})
	}
	return shards
}

// takeReturned takes up to n shards, cut at their borders, from those of the returned positions whose blocks are
// planned. It returns them and how many more may be taken.
func (s *State) takeReturned(returned position.Set, n int64) (position.Set, int64) {
	var got []position.Interval
	for _, iv := range returned {
		for p := iv.From; n > 0 && p.Less(iv.To); {
			b, ok := s.blocks.find(p)
			if !ok {
				break
			}
			to := least(b.advance(p, n), iv.To)
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
func (s *State) takeFrontier(epoch uint32, n int64) position.Set {
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
