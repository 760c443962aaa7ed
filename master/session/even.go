package session

import (
	"math"
	"slices"
)

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
//   - Steps that a rank announces count once all of an epoch is planned, and no further than its share takes it. What
//     it has beyond that it is asked to give back, so that such a step might have no rows at all.
//
// Nobody waits for ever: a rank that lacks rows of its share gets them as soon as some are free. If none are it pads,
// once all others have said what they give back of what they hold above their shares: each does with its next Sync, or
// its lease ends.

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
	return s.served(k, n) || s.drained() && !s.awaits()
}

// advance takes over what a rank reports, and of the steps that it announces those that count.
func (s even) advance(r uint32, k *rank, at *Steps, ch *Changes) {
	if at == nil {
		return
	}
	k.advance(r, &Steps{Epoch: at.Epoch, Handed: at.Handed, Ready: at.Handed}, ch)
	if at.Epoch == s.closed && at.Ready > at.Handed && s.whollyPlanned(at.Epoch) {
		last := (s.level(at.Epoch) + s.batch() - 1) / s.batch()
		k.advance(r, &Steps{Epoch: at.Epoch, Handed: at.Handed, Ready: min(at.Ready, last)}, ch)
	}
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
	return need{rows: s.below(s.level(epoch), k, epoch), known: true}
}

// below is how many rows a rank lacks to a level.
func (s even) below(level uint64, k *rank, epoch uint32) uint64 {
	return level - min(level, k.handedIn(epoch)*s.batch())
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

// awaits reports whether ranks hold more of the open epoch than their shares, and have yet to say what of that they
// give back.
func (s even) awaits() bool {
	level := s.level(s.closed)
	return slices.ContainsFunc(s.ranks, func(k *rank) bool {
		if k == nil || !k.present() || k.steps.Epoch > s.closed {
			return false
		}
		if held := within(k.held, s.closed); len(held) > 0 {
			return !k.answered && len(held.Intersect(k.releasing)) > 0 ||
				s.blocks.rowsIn(held.Subtract(k.releasing)) > s.below(level, k, s.closed)
		}
		return false
	})
}
