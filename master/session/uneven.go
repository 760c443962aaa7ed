package session

// uneven is the ending where each rank reads on until an epoch has no more rows, whatever the others got.
type uneven struct{ takeover }

func (s uneven) countsOutputs() bool                 { return false }
func (s uneven) counts() bool                        { return false }
func (s uneven) stepsOf(uint32) (uint64, bool)       { return 0, false }
func (s uneven) passed(*rank, uint32) (uint64, bool) { return 0, false }

// advance takes over what a rank reports.
func (s uneven) advance(r uint32, k *rank, at *Steps, idle bool, ch *Changes) {
	k.advance(r, at, ch)
	s.noteIdle(r, k, idle, ch)
}

// begin has a rank that comes back go on in the open epoch.
func (s uneven) begin(k *rank, _ *Changes) Steps {
	if with := s.startedWith(k, func(o *rank) bool { return s.waits(o) && o.begun.Epoch >= s.closed }); with != nil {
		return with.begun
	}
	if k.steps.Epoch == s.closed {
		return k.steps
	}
	return Steps{Epoch: s.closed}
}

func (s uneven) over(epoch uint32) bool { return s.consumedAll(epoch) || s.leftByAll(epoch, false) }

// keep is the epoch that the loop that is furthest behind is in, but the newest closed one at least: ranks are not in
// step.
func (s uneven) keep() uint32 { return max(s.firstEpoch(), s.closed-1) }
