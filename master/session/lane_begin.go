package session

import "slices"

// open is where a training loop goes on that has handed over so much: after what is closed, and all that is known to
// be over. It is still to be told of the end of an epoch without steps.
func (s deterministic) open(n Steps) Steps {
	if n.Epoch < s.closed {
		n = Steps{Epoch: s.closed}
	}
	for steps, final := s.laneSteps(n.Epoch); final && n.Handed >= max(steps, 1); steps, final = s.laneSteps(n.Epoch) {
		n = Steps{Epoch: n.Epoch + 1}
	}
	return n
}

// beginLanes is where a rank begins that comes back. The first of those that start again together goes back to where
// the slowest rank is: one whose last report is older would not hand over the rows between else, since the others take
// it along. So would one that left, and comes back with them; one that was too far behind to have been in step is not
// waited for. together says that begun is where others began.
func (s deterministic) beginLanes(begun Steps, together bool) Steps {
	if together {
		return s.open(begun)
	}
	first := begun
	if n := s.slowest(); n.less(first) {
		first = n
	}
	for _, k := range s.ranks {
		if k == nil || !k.departed {
			continue
		}
		if n := s.leftAt(k); n.less(first) && n.Epoch == begun.Epoch && begun.Handed <= n.Handed+stepsAhead {
			first = n
		}
	}
	return s.open(first)
}

// leftAt is where the training loop of a rank was that departed. At the end of the last closed epoch it was at the next
// one's begin.
func (s deterministic) leftAt(k *rank) Steps {
	if slices.ContainsFunc(s.steps, func(e EpochSteps) bool {
		return e.Epoch+1 == s.closed && e.Epoch == k.steps.Epoch && k.over(e.Epoch, e.Steps)
	}) {
		return Steps{Epoch: s.closed}
	}
	return k.steps
}

// again is how many rows a rank hands over again that goes back to some steps.
func (s deterministic) again(k *rank, begun Steps) int64 {
	at := s.at(k)
	if !begun.less(at) {
		return 0
	}
	n := at.Handed - begun.Handed
	for epoch := begun.Epoch; epoch < at.Epoch; epoch++ {
		steps, _ := s.laneSteps(epoch)
		n += steps
	}
	return int64(n * s.id.GlobalBatch / uint64(s.world))
}

// slowest is where the last of the ranks is that have not departed.
func (s deterministic) slowest() Steps {
	var out Steps
	found := false
	for _, k := range s.ranks {
		if n := s.at(k); (k == nil || !k.departed) && (!found || n.less(out)) {
			out, found = n, true
		}
	}
	if !found {
		return Steps{Epoch: s.closed}
	}
	return out
}
