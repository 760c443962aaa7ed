package session

import "math"

// Where last batches are padded and no rows are left out, an epoch has as few steps as its rows suffice for: grants follow the speed of
// ranks as long as there are plenty, and in the end, or from the beginning where an epoch has few shards, each rank gets an even share.
//
//   - Once all of an epoch is planned, what a rank holds is bounded by its share. Grants are cut at rows, and what a rank holds above its
//     share is asked back.
//   - Shares even out what ranks come to with their steps: one that is some steps behind gets more.
//   - Shares of ranks that have not joined stay theirs, also before all is planned: they make as many steps as the others. Those of ranks
//     that departed, whose leases ended or whose loops left the epoch go to the others.
//   - A rank that has its share waits for no more rows with its last batch.
//
// Nobody waits for ever: a rank that lacks rows of its share gets them as soon as some are free, and if none are it pads.

// need is how many rows of an epoch a rank may hold, if that is bounded.
type need struct {
	rows  uint64
	known bool
}

// needs are those of the open epoch and of the next one.
type needs [2]need

func (s *State) needs(k *rank) (n needs) {
	for i := range n {
		switch {
		case s.drops():
			n[i] = s.need(k, s.closed+uint32(i))
		case s.evens():
			n[i] = s.even(k, s.closed+uint32(i))
		}
	}
	return n
}

// evens reports whether rows are shared out evenly.
func (s *State) evens() bool { return s.id.Pad && !s.id.Selects && s.id.Lanes == 0 }

// sharesOut reports whether ranks are granted no more rows than they need, which are counted for it.
func (s *State) sharesOut() bool { return s.drops() || s.evens() }

// even is a rank's share of what is left of an epoch, unless there are plenty.
func (s *State) even(k *rank, epoch uint32) need {
	if k.steps.Epoch > epoch || s.left(epoch) == 0 { // what is left may have no rows
		return need{}
	}
	if s.allJoined() && !s.whollyPlanned(epoch) {
		return need{}
	}
	level := s.level(epoch)
	return need{rows: level - min(level, k.handedIn(epoch)*s.batch()), known: true}
}

// level is how many rows ranks come to if what is left of an epoch is poured onto what they have come to, to the same level. They have
// come to the rows that fill the steps that they have made.
func (s *State) level(epoch uint32) uint64 {
	batch, left := s.batch(), s.left(epoch)
	for level := uint64(math.MaxUint64); ; {
		sum, below, highest := left, uint64(0), uint64(0)
		for _, k := range s.ranks {
			if k != nil && (!k.present() || k.steps.Epoch > epoch) {
				continue
			}
			if come := k.handedIn(epoch) * batch; come < level {
				sum, below, highest = sum+come, below+1, max(highest, come)
			}
		}
		if below == 0 {
			return level
		}
		if level = (sum + below - 1) / below; highest < level {
			return level
		}
	}
}

// served reports whether a rank has its share of the open epoch, though others do not have theirs.
func (s *State) served(k *rank, n needs) bool {
	return s.evens() && n[0].known && s.whollyPlanned(s.closed) && s.blocks.rowsIn(within(k.held, s.closed)) >= n[0].rows
}

// trim asks a rank for what it holds above its need.
func (s *State) trim(r uint32, k *rank, n needs, ch *Changes) {
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
