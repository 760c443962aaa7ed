package session

import "slices"

// Where last batches are dropped and all ranks leave (Close) and start again, the first of them is alone for a while: that others will
// come, to go on in step with it, nobody knows, and their share of the epoch must not go to it. But a rank that waits for others hands
// over no more than one batch. So it is told of two, and of the rest when one of those that are there has handed over both.

// gather reports whether ranks that left where a rank began may come back to go on in step with it: none of those that are there has
// moved on, as they do when they wait for nobody.
func (s *State) gather(k *rank) bool {
	return !slices.ContainsFunc(s.ranks, func(o *rank) bool { return o != nil && !o.departed && !s.waits(o) }) &&
		slices.ContainsFunc(s.ranks, func(o *rank) bool { return o != nil && s.mayFollow(o, k) })
}

// mayFollow reports whether a rank left at most a batch before or behind the place where another one began.
func (s *State) mayFollow(left, k *rank) bool {
	return left.departed && (s.next(k.begun, s.at(left)) || s.next(s.at(left), k.begun))
}

// next reports whether a place is another one, or a batch behind it.
func (s *State) next(last, n Steps) bool {
	last, n = s.pass(last), s.pass(n)
	return n == last || n == s.pass(Steps{Epoch: last.Epoch, Handed: last.Handed + 1})
}

// pass is a place behind the ends of epochs that are known to have no more steps from there on.
func (s *State) pass(n Steps) Steps {
	n.Ready = 0
	for n.Epoch < s.id.Epochs {
		if steps, told, _ := limitOf(s.shares(n.Epoch)); !told || n.Handed < steps {
			break
		}
		n = Steps{Epoch: n.Epoch + 1}
	}
	return n
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
func (s *State) withFollowers(k *rank, epoch uint32, shares []share) []share {
	for _, o := range s.ranks {
		if o == nil || !s.mayFollow(o, k) || s.at(o).Epoch > epoch {
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
	furthest := begun
	for _, o := range s.ranks {
		if o != nil && o.departed && furthest.less(o.steps) && s.next(begun, o.steps) {
			furthest = o.steps
		}
	}
	return furthest
}
