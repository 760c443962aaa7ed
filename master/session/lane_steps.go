package session

import "slices"

func (n Steps) less(m Steps) bool {
	return n.Epoch < m.Epoch || n.Epoch == m.Epoch && n.Handed < m.Handed
}

// laneSteps is how many steps an epoch has by what is planned of it, and whether that is final.
func (s deterministic) laneSteps(epoch uint32) (steps uint64, final bool) {
	e := s.blocks.epoch(epoch)
	if e == nil {
		return 0, false
	}
	if e.blocks > 0 && e.planned == e.blocks {
		return s.ending().steps(e.lanes, s.id.share()), true
	}
	return wholeSteps{}.steps(e.lanes, s.id.share()), false
}

// laneEpoch is what a rank is told of an epoch.
func (s deterministic) laneEpoch(epoch uint32) EpochSteps {
	e := EpochSteps{Epoch: epoch}
	e.Steps, e.Final = s.laneSteps(epoch)
	if e.Final {
		e.Dropped = s.ending().dropped(s.laneRows(epoch), s.id.share(), e.Steps)
	}
	return e
}

// laneStepsFrom is what a rank in an epoch is told. It may not have heard yet that its epoch is closed.
func (s deterministic) laneStepsFrom(epoch uint32) []EpochSteps {
	out := slices.DeleteFunc(slices.Clone(s.steps), func(e EpochSteps) bool { return e.Epoch < epoch })
	for _, e := range s.blocks.epochs {
		if e.epoch >= epoch {
			out = append(out, s.laneEpoch(e.epoch))
		}
	}
	return out
}

// admit checks what a rank reports: it cannot have handed over what it was not told of.
func (s deterministic) admit(r uint32, at *Steps, left uint32) error {
	if at == nil {
		return nil
	}
	k, n := s.rank(r), *at
	// a rank may be through with the next epoch, too, before the others have reported that they ended this one
	newest := s.closed
	for _, final := s.laneSteps(newest); final; _, final = s.laneSteps(newest) {
		newest++
	}
	newest = max(newest, min(left, s.closed+2, s.id.Epochs))
	known, _ := s.laneSteps(n.Epoch)
	if n.Epoch == k.begun.Epoch {
		known = max(known, k.begun.Handed)
	}
	if n.Epoch > newest || n.Epoch >= s.closed && n.Handed > known {
		return invalid(
			"rank %d reports %d batches of epoch %d, which has %d so far, with %d epochs closed: the trainer or its "+
				"client is broken",
			r, n.Handed, n.Epoch, known, s.closed)
	}
	return nil
}

// over reports whether a rank has handed over all of an epoch, whose number of steps is final.
func (k *rank) over(epoch uint32, steps uint64) bool {
	return k.steps.Epoch > epoch || k.steps.Epoch == epoch && k.steps.Handed >= steps
}

// lanesOver reports whether an epoch can be closed: all ranks have handed over all of it, or departed. While some of
// them are present one of these has to have moved on: those that left may come back to join the others in its last
// steps, and in step are waited for. An epoch without steps is over at once.
func (s deterministic) lanesOver(epoch uint32) bool {
	steps, final := s.laneSteps(epoch)
	if !final || steps == 0 {
		return final
	}
	present, over, moved := 0, 0, false
	for _, k := range s.ranks {
		switch {
		case !k.departed && !k.over(epoch, steps):
			return false
		case k.over(epoch, steps):
			over++
			moved = moved || k.steps.Epoch > epoch
		}
		if !k.departed {
			present++
		}
	}
	return moved || over == len(s.ranks) && (present == 0 || present == len(s.ranks))
}
