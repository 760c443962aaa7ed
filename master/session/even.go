package session

import "slices"

// Where last batches are padded and no rows are left out, an epoch has as few steps as its rows suffice for: grants follow the speed of
// ranks as long as there are plenty, and in the end, or from the beginning where an epoch has few shards, each rank gets an even share.
//
//   - Once all of an epoch is planned, what a rank holds is bounded by its share. Grants are cut at rows, and what a rank holds above its
//     share is asked back.
//   - Shares even out what ranks come to with their steps: one that is some steps behind gets more.
//   - Shares of ranks that have not joined stay theirs, also before all is planned: they make as many steps as the others. Those of ranks
//     that left, or whose leases ended, go to the others.
//   - A rank that has its share waits for no more rows with its last batch.
//
// Nobody waits for ever: a rank that lacks rows of its share gets them as soon as some are free, and if none are it pads.

// evens reports whether rows are shared out evenly.
func (s *State) evens() bool { return s.id.Pad && !s.id.Selects && s.id.Lanes == 0 }

// sharesOut reports whether ranks are granted no more rows than they need, which are counted for it.
func (s *State) sharesOut() bool { return s.drops() || s.evens() }

// even is how many rows of an epoch a rank may hold, unless there are plenty.
func (s *State) even(k *rank, epoch uint32) (rows uint64, known bool) {
	switch {
	case !s.evens(), s.left(epoch) == 0: // what is left may have no rows
		return 0, false
	case !slices.Contains(s.ranks, nil) && !s.whollyPlanned(epoch):
		return 0, false
	}
	level := s.level(epoch)
	return level - min(level, s.come(k, epoch)), true
}

// come is how many rows of an epoch fill the steps that a rank has made.
func (s *State) come(k *rank, epoch uint32) uint64 { return k.handedIn(epoch) * s.batch() }

// level is how many rows ranks come to if what is left of an epoch is poured onto what they have come to, to the same level.
func (s *State) level(epoch uint32) (rows uint64) {
	var come []uint64
	for _, k := range s.ranks {
		if k == nil || k.present() {
			come = append(come, s.come(k, epoch))
		}
	}
	slices.Sort(come)
	sum := s.left(epoch)
	for i, n := range come {
		if i > 0 && rows <= n {
			break
		}
		sum += n
		rows = (sum + uint64(i)) / uint64(i+1)
	}
	return rows
}

// served reports whether a rank has its share of the open epoch, though others do not have theirs.
func (s *State) served(k *rank) bool {
	rows, known := s.even(k, s.closed)
	return known && s.whollyPlanned(s.closed) && s.rowsIn(within(k.held, s.closed)) >= rows
}
