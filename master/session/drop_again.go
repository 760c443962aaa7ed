package session

import "slices"

// Where last batches are dropped and all ranks leave (Close) and start again, the first of them is alone for a while: that others will
// come, to go on in step with it, nobody knows, and their share of the epoch must not go to it. But a rank that waits for others hands
// over no more than one batch. So it is told of two, and of the rest when one of those that are there has handed over both.

// followers are the ranks that may come back to go on in step with one: they left at most a batch before or behind the place where it
// began, and none of those that are there has moved on, as they do when they wait for nobody.
func (s *State) followers(k *rank) (out []*rank) {
	left := func(o *rank) bool { return o != nil && o.departed }
	moved := func(o *rank) bool { return o != nil && !o.departed && !s.waits(o) }
	if !slices.ContainsFunc(s.ranks, left) || slices.ContainsFunc(s.ranks, moved) {
		return nil
	}
	ends := s.ends()
	for _, o := range s.ranks {
		if left(o) && (ends.next(k.begun, s.at(o)) || ends.next(s.at(o), k.begun)) {
			out = append(out, o)
		}
	}
	return out
}

// ends are the numbers of steps, as far as some rank was told of all, of the epochs from the open one on that ranks may be in.
type ends struct {
	first uint32
	steps []uint64
}

func (s *State) ends() ends {
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

// pass is a place behind the ends of epochs that have no more steps from there on.
func (e ends) pass(n Steps) Steps {
	n.Ready = 0
	for n.Epoch >= e.first && n.Epoch < e.first+uint32(len(e.steps)) && n.Handed >= e.steps[n.Epoch-e.first] {
		n = Steps{Epoch: n.Epoch + 1}
	}
	return n
}

// next reports whether a place is another one, or a batch behind it.
func (e ends) next(last, n Steps) bool {
	last, n = e.pass(last), e.pass(n)
	return n == last || n == e.pass(Steps{Epoch: last.Epoch, Handed: last.Handed + 1})
}

// firstTwo is how many steps of an epoch a rank needs for two batches since it began.
func (k *rank) firstTwo(epoch uint32) uint64 {
	n := k.begun.Handed + 2
	switch told := k.toldOf(k.begun.Epoch); {
	case epoch == k.begun.Epoch:
		return n
	case epoch == k.begun.Epoch+1 && told.Final:
		return n - min(n, told.Steps)
	}
	return 0
}

// withFollowers are the shares in an epoch, with those of ranks that may follow one.
func (s *State) withFollowers(k *rank, epoch uint32, shares []share, followers []*rank) []share {
	for _, o := range followers {
		if s.at(o).Epoch > epoch {
			continue
		}
		n := share{handed: o.handedIn(epoch), newcomer: true}
		if epoch == k.begun.Epoch {
			n.handed = max(n.handed, k.begun.Handed)
		}
		shares = append(shares, n)
	}
	return shares
}

// beginDropping is where a rank begins that starts alone. Those that left a batch ahead of it may come back to go on in step with it,
// and the rows of that batch are gone.
func (s *State) beginDropping(begun Steps) Steps {
	ends, furthest := s.ends(), begun
	for _, o := range s.ranks {
		if o != nil && o.departed && furthest.less(o.steps) && ends.next(begun, o.steps) {
			furthest = o.steps
		}
	}
	return furthest
}
