package session

import (
	"math"
	"slices"
)

// Where last batches are dropped and all ranks leave (Close) and start again, the first of them is alone for a while:
// that others will come, to go on in step with it, nobody knows, and their share of the epoch must not go to it. But a
// rank that waits for others hands over no more than its first batches. So it is told of one more, and of the rest when
// one of those that are there has handed over all of these.

// followers are the ranks that may come back to go on in step with those that began at a place: they left near it, or
// they follow all that are there; and none of those has moved on, as they do when they wait for nobody.
func (s drop) followers(begun Steps) (out []*rank) {
	left := func(o *rank) bool { return o != nil && o.departed }
	moved := func(o *rank) bool { return o != nil && !o.departed && !s.waits(o) }
	if !slices.ContainsFunc(s.ranks, left) || slices.ContainsFunc(s.ranks, moved) {
		return nil
	}
	ends, since := s.ends(), s.allSince()
	for _, o := range s.ranks {
		if left(o) && (s.followsAll(o, begun, since) || ends.near(begun, s.at(o)) || ends.near(s.at(o), begun)) {
			out = append(out, o)
		}
	}
	return out
}

// followsAll reports whether a rank left before all that are there began again, and further ahead than they did or in a
// later epoch: so they had been killed, where they began is what they had reported, and they had come as far as it. It
// goes on where they do then (begin), however far that is. One that ended all epochs has nothing to come back for.
func (s drop) followsAll(o *rank, begun Steps, since uint64) bool {
	at := s.at(o)
	return o.heard < since && begun.less(at) && at.Epoch < s.id.Epochs && begun.Epoch >= s.closed
}

// allSince is the oldest join of those that are there, if all had joined before: one that had not reads what others
// ended without it.
func (s drop) allSince() uint64 {
	since := uint64(math.MaxUint64)
	for _, o := range s.ranks {
		switch {
		case o == nil || o.departed:
		case o.incarnation == 1:
			return 0
		default:
			since = min(since, o.joined)
		}
	}
	return since
}

// ends are the numbers of steps, as far as some rank was told of all, of the epochs from the open one on that ranks may
// be in.
type ends struct {
	first uint32
	steps []uint64
}

func (s drop) ends() ends {
	e := ends{first: s.closed}
	for epoch := s.closed; epoch < min(s.closed+3, s.id.Epochs); epoch++ {
		steps, told, _ := limitOf(s.shares(epoch))
		if !told {
			break
		}
		e.steps = append(e.steps, steps)
	}
	return e
}

// pass is a place after the ends of epochs that have no more steps from there on.
func (e ends) pass(n Steps) Steps {
	n.Ready = 0
	for n.Epoch >= e.first && n.Epoch < e.first+uint32(len(e.steps)) && n.Handed >= e.steps[n.Epoch-e.first] {
		n = Steps{Epoch: n.Epoch + 1}
	}
	return n
}

// near reports whether a place is another one, or no further behind it than ranks in step are apart.
func (e ends) near(last, n Steps) bool {
	last, n = e.pass(last), e.pass(n)
	for range firstBatches {
		if n == last {
			break
		}
		last = e.pass(Steps{Epoch: last.Epoch, Handed: last.Handed + 1})
	}
	return n == last
}

// firstSteps is how many steps of an epoch a rank needs to have handed over one more than its first batches.
func (k *rank) firstSteps(epoch uint32) uint64 {
	n := k.begun.Handed + firstBatches + 1
	for e := k.begun.Epoch; e < epoch; e++ {
		told := k.toldOf(e)
		if !told.Final {
			return 0
		}
		n -= min(n, told.Steps)
	}
	return n
}

// withFollowers are the shares in an epoch, with those of ranks that may follow one.
func (s drop) withFollowers(k *rank, epoch uint32, shares []share, followers []*rank) []share {
	since := s.allSince()
	for _, o := range followers {
		n := share{handed: o.handedIn(epoch), newcomer: true}
		switch follows := s.followsAll(o, k.begun, since); {
		case follows && k.begun.Epoch > epoch, !follows && s.at(o).Epoch > epoch:
			continue
		case follows:
			n.handed = 0
		}
		if epoch == k.begun.Epoch {
			n.handed = max(n.handed, k.begun.Handed)
		}
		shares = append(shares, n)
	}
	return shares
}

// beginAlone is where a rank begins that starts alone. Those that left a few batches ahead of it may come back to go on
// in step with it, and the rows of these batches are gone.
func (s drop) beginAlone(begun Steps) Steps {
	ends, furthest := s.ends(), begun
	for _, o := range s.ranks {
		if o != nil && o.departed && furthest.less(o.steps) && ends.near(begun, o.steps) {
			furthest = o.steps
		}
	}
	return furthest
}
