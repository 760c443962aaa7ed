package session

// sharesEvenly reports whether a session's rows are shared out evenly.
func sharesEvenly(s *State) bool {
	p, ok := s.policy().(pad)
	return ok && p.sharesOut()
}

// checkEven checks the share of a rank that was just heard of, and that it is granted no more.
func (m *model) checkEven(r uint32) {
	k := m.s.rank(r)
	if !sharesEvenly(m.s) || m.s.Failure() != "" || !k.present() {
		return
	}
	for i, need := range (even{fast{m.s}}).needs(k) {
		epoch := m.s.closed + uint32(i)
		if !need.known {
			continue
		}
		if n := m.s.blocks.rowsIn(within(k.held, epoch).Subtract(k.releasing)); n > need.rows {
			m.fail("rank %d holds %d rows of epoch %d, and is not asked for those above its share, %d",
				r, n, epoch, need.rows)
		}
		if need.rows == 0 {
			continue
		}
		level := need.rows + k.handedIn(epoch)*m.s.batch()
		if left := (fast{m.s}).left(epoch); m.fills(epoch, level) < left || m.fills(epoch, level-1) >= left {
			m.fail(
				"rank %d is to come to %d rows of epoch %d; to even out what is left, %d, others come to another number", r, level, epoch, left)
		}
	}
}

// fills is how many rows bring all ranks that read an epoch to a level.
func (m *model) fills(epoch uint32, level uint64) (rows uint64) {
	for _, k := range m.s.ranks {
		if k == nil || k.present() && k.steps.Epoch <= epoch {
			come := k.handedIn(epoch) * m.s.batch()
			rows += max(level, come) - come
		}
	}
	return rows
}

// checkSteps checks that an epoch had few steps, if all ranks read it from its start to its end.
func (m *model) checkSteps(n Steps) {
	if !sharesEvenly(m.s) || m.s.generation > 1 || m.lives > 0 || m.faults != nil || m.passes != nil &&
		len(m.passes.some) > 0 {
		return
	}
	for _, k := range m.s.ranks {
		if k == nil || !k.present() || k.incarnation > 1 {
			return
		}
	}
	rows := uint64(len(m.d.rows(within(m.d.all(), n.Epoch))))
	step := uint64(m.s.world) * m.s.batch()
	if ideal := (rows + step - 1) / step; n.Handed > ideal+kept {
		m.fail("epoch %d has %d rows, and %d ranks make %d steps of %d rows each, where %d suffice",
			n.Epoch, rows, m.s.world, n.Handed, m.s.batch(), ideal)
	}
}

// kept is how many steps an epoch has at most beyond those that its rows suffice for. Until all of it is planned, each
// batch is full, and nobody pads. From then on what ranks announce ends at their level, and nobody pads as long as
// others may give back what they have above theirs. So a rank passes the level only with rows that it was asked for and
// keeps: those of the batch in its making, which is one.
const kept = 1
