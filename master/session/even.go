package session

import "math"

// Where last batches are padded and no rows are left out, an epoch has as few steps as its rows suffice for: grants
// follow the speed of ranks as long as there are plenty, and in the end, or from the beginning where an epoch has few
// shards, each rank gets an even share.
//
//   - Once all of an epoch is planned, what a rank holds is bounded by its share. Grants are cut at rows, and what a
//     rank holds above its share is asked back.
//   - Shares even out what ranks come to with their steps: one that is some steps behind gets more.
//   - Shares of ranks that have not joined stay theirs, also before all is planned: they make as many steps as the
//     others. Those of ranks that departed, whose leases ended or whose loops left the epoch go to the others.
//   - A rank that has its share waits for no more rows with its last batch.
//
// Nobody waits for ever: a rank that lacks rows of its share gets them as soon as some are free, and if none are it
// pads.

// need is how many rows of an epoch a rank may hold, if that is bounded.
type need struct {
	rows  uint64
	known bool
}

// needs are those of the open epoch and of the next one.
type needs [2]need

// even is what shares rows out evenly.
type even struct{ fast }

// grant asks a rank for what it holds above its share, and grants it up to that.
func (s even) grant(c Sync, k *rank, ch *Changes) (drained bool) {
	n := s.needs(k)
	s.trim(c.Rank, k, n, ch)
	passed := func(epoch uint32) bool { return epoch == s.closed && s.drained() }
	s.more(c.Rank, k, c.Streams, n, passed, func(uint32) bool { return c.WantsMore }, ch)
	return s.drained() || s.served(k, n)
}

// needs are a rank's shares of the open epoch and of the next one.
func (s even) needs(k *rank) needs { return needs{s.share(k, s.closed), s.share(k, s.closed+1)} }

// share is a rank's share of what is left of an epoch, unless there are plenty.
func (s even) share(k *rank, epoch uint32) need {
	if k.steps.Epoch > epoch || s.left(epoch) == 0 { // what is left may have no rows
		return need{}
	}
	if s.allJoined() && !s.whollyPlanned(epoch) {
		return need{}
	}
	level := s.level(epoch)
	return need{rows: level - min(level, k.handedIn(epoch)*s.batch()), known: true}
}

// level is how many rows ranks come to if what is left of an epoch is poured onto what they have come to, to the same
// level. They have come to the rows that fill the steps that they have made.
func (s even) level(epoch uint32) uint64 {
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
func (s even) served(k *rank, n needs) bool {
	return n[0].known && s.whollyPlanned(s.closed) && s.blocks.rowsIn(within(k.held, s.closed)) >= n[0].rows
}
