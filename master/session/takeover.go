package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/position"
)

// Where it is not counted how many rows each rank gets (last_batch UNEVEN, and PAD if rows are left out), ranks come to
// the end of an epoch together because those that have nothing left of it take over from those that have most:
//
//   - A rank tells that it is idle. Once all of the epoch is granted, the rank that holds most is asked for the second
//     half of that, cut between two windows, or at a row if none is left out.
//   - As many ranks at most are asked at once as are idle. What they give back is for idle ranks: the last few shards
//     are.
//   - A rank does not give back the window that it reads first: where workers take longer for one than ranks for a
//     Sync, the last ones would go from rank to rank, and never be read to their ends.
//   - An idle rank is told that the epoch is drained, and then hands over its last, short batch or pads, only if nobody
//     holds two windows that it could give back. What a rank keeps though it was asked, that window and what lies in
//     its batch in the making, it cannot.
//
// Nobody waits for ever: a rank that is asked answers with its next Sync, whatever its training loop waits for, or its
// lease ends; and what it reads first stays its own until it has read it.

// lastShards is how many free shards for each rank are the last few: of more, what a rank is granted is bounded by run.
const lastShards = 4

// takeover is what has idle ranks take over from others.
type takeover struct{ fast }

// grant asks another rank for rows if this one is idle, and grants it what it wants.
func (s takeover) grant(c Sync, k *rank, ch *Changes) (drained bool) {
	awaits := s.askForIdle(k, ch)
	passed := func(epoch uint32) bool { return epoch == s.closed && (s.drained() || s.keptForIdle(k)) }
	s.more(c.Rank, k, c.Streams, needs{}, passed, func(uint32) bool { return c.WantsMore }, ch)
	return s.drained() && !awaits
}

// noteIdle takes over whether a rank is idle, once that matters: when nothing of the open epoch is left that nobody was
// granted.
func (s takeover) noteIdle(r uint32, k *rank, says bool, ch *Changes) {
	idle := uint32(0)
	if says && s.frontier.Epoch > s.closed && k.steps.Epoch <= s.closed {
		idle = s.closed + 1
	}
	if k.idle != idle {
		k.idle = idle
		ch.rank(r)
	}
}

func (s takeover) isIdle(k *rank) bool { return k != nil && k.present() && k.idle == s.closed+1 }

// keptForIdle reports whether free rows of the open epoch are for ranks that are idle, as this one is not.
func (s takeover) keptForIdle(k *rank) bool {
	if s.frontier.Epoch <= s.closed || s.isIdle(k) {
		return false
	}
	return slices.ContainsFunc(s.ranks, s.isIdle) &&
		s.free(within(s.returned, s.closed), s.closed) <= lastShards*int64(s.world)
}

// askForIdle asks a rank for rows if another one is idle and none are free. It reports whether that one may wait for
// some.
func (s takeover) askForIdle(k *rank, ch *Changes) (awaits bool) {
	if !s.isIdle(k) || !s.drained() {
		return false
	}
	idle, asked, donor, rows := 0, 0, uint32(0), uint64(0)
	var give position.Set
	for i, o := range s.ranks {
		switch {
		case s.isIdle(o):
			idle++
		case o == nil || !o.present():
		case !o.answered && len(within(o.releasing, s.closed)) > 0:
			asked++
		default:
			holds := within(o.held.Subtract(o.releasing), s.closed)
			if n := s.blocks.rowsIn(holds); n > rows {
				if half := s.half(holds); len(half) > 0 {
					donor, rows, give = uint32(i), n, half
				}
			}
		}
	}
	if len(give) == 0 || asked >= idle {
		return asked > 0
	}
	o := s.ranks[donor]
	s.ask(donor, o, o.releasing.Union(give), ch)
	return true
}

// half is the second half of a set, or nothing if it cannot be cut.
func (s takeover) half(set position.Set) position.Set {
	rows := s.blocks.rowsIn(set)
	if !s.id.Selects {
		if rows < 2*s.batch() {
			return nil
		}
		return set.Subtract(s.blocks.firstRows(set, rows-rows/2))
	}
	first := s.blocks.firstRows(set, rows-rows/2)
	if len(first) == 0 {
		return nil
	}
	from, to := s.blocks.window(first[len(first)-1].To)
	if rest := set.Subtract(position.Set{{To: to}}); len(rest) > 0 {
		return rest
	}
	if rest := set.Subtract(position.Set{{To: from}}); !rest.Equal(set) {
		return rest
	}
	return nil
}
