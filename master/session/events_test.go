package session

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

func (m *model) nonce() string {
	m.nonces++
	return fmt.Sprint("nonce ", m.nonces)
}

func (m *model) join() { m.start(uint32(m.draw(len(m.trainers)))) }

// start starts a rank that does not run; the call may have to be repeated.
func (m *model) start(r uint32) {
	old := m.trainers[r]
	if old != nil && !old.dead {
		return
	}
	t := &trainer{rank: r, nonce: m.nonce(), loop: m.newLoop(), faults: m.faults}
	if old != nil && old.generation == m.s.generation {
		m.unreported(old)
	}
	reply := m.must(t.joinCommand(m.s.world))
	for range m.draw(3) {
		if m.draw(2) == 0 {
			m.restart()
		}
		again := m.must(t.joinCommand(m.s.world))
		if again.Incarnation != reply.Incarnation || again.Kind != reply.Kind || !again.Consumed.Equal(reply.Consumed) {
			m.fail("repeated join of rank %d: %+v, then %+v", r, reply, again)
		}
	}
	leaving := old != nil && old.leaving && !old.left // it died before it heard that it left
	if rejoin := reply.Kind == pb.JoinKind_REJOIN; !leaving && rejoin != (old != nil && !old.left) {
		m.fail("rank %d joined as %v", r, reply.Kind)
	}
	if m.drop != nil && !m.together && old != nil && old.generation == reply.Generation {
		wentBack := old.loop != nil &&
			(Steps{Epoch: reply.Begun.Epoch, Handed: reply.Begun.Handed}).compare(old.loop.at) < 0
		// Others that left ahead of it may come back, so that it has no more than its part of what is left.
		behind := slices.ContainsFunc(m.s.ranks, func(k *rank) bool {
			return k != nil && k.departed && reply.Begun.less(k.steps)
		})
		if old.left || old.leaving || wentBack || behind {
			m.drop.cameBack[reply.Generation] = true
		}
	}
	t.joined(reply)
	padded := m.batchSize > 0 && m.drop == nil // with drop it may begin after an epoch of which no rank got a step
	alone := m.passes != nil                   // it may begin with one that left the first epoch and started again
	if first := reply.Incarnation == 1; first && padded && !alone && reply.Begun.Epoch != m.s.begun.Epoch {
		m.fail("rank %d joins for the first time, and begins at %+v; its generation began at %+v",
			r, reply.Begun, m.s.begun)
	}
	m.back(r, reply.Begun)
	if m.passes != nil && m.passes.some[reply.Begun.Epoch] { // it makes steps that others did not
		m.passes.apart = true
	}
	t.all = tallyOf(m.d.rows(reply.Consumed))
	if old != nil && old.generation == m.s.generation {
		for row := range old.all {
			if reply.Kind == pb.JoinKind_FRESH { // it had left
				m.gone[row] = 1
			} else if row.Epoch < reply.Closed { // and was reported, then
				t.all[row] = 1
			}
		}
	}
	m.trainers[r] = t
}

// die kills a trainer; its calls that are under way may still arrive.
func (m *model) die() {
	if t := m.someone(); t != nil && !t.leaving {
		t.dead = true
	}
}

// cutOff ends a trainer's lease on its own clock: it waits.
func (m *model) cutOff() {
	if t := m.someone(); t != nil {
		t.cut, t.cutAt = true, t.sent
	}
}

// expire ends, later, the lease of a trainer that died or waits.
func (m *model) expire() {
	t := m.trainers[m.draw(len(m.trainers))]
	if t == nil || t.generation != m.s.generation || !t.cut && !t.dead {
		return
	}
	m.unreported(t)
	m.must(Expire{Rank: t.rank, Incarnation: t.incarnation})
}

// leave ends a trainer that says so.
func (m *model) leave() {
	if t := m.someone(); t != nil && m.draw(3) == 0 {
		t.leaving = true
		m.network = append(m.network, t.request(m.draw))
	}
}

// staysAway draws ranks that left and never come again. One stays, and all do where a restore waits for them.
func (m *model) staysAway() map[uint32]bool {
	away := map[uint32]bool{}
	if len(m.s.restore.parts) > 0 {
		return away
	}
	for r := range uint32(len(m.trainers)) {
		if k := m.s.rank(r); k != nil && k.departed && len(away)+1 < len(m.trainers) && m.draw(2) == 0 {
			away[r] = true
		}
	}
	return away
}

// recall asks some rank for some of what it holds.
func (m *model) recall() {
	r := uint32(m.draw(len(m.trainers)))
	k := m.s.rank(r)
	if k == nil || len(k.held) == 0 {
		return
	}
	pieces := m.s.blocks.split(k.held)
	m.must(Recall{Rank: r, Set: position.Set{pieces[m.draw(len(pieces))]}})
}

// finish lets the job come to its end, with every rank running but for some that left, and nothing failing any more.
func (m *model) finish() {
	m.away = m.staysAway()
	open := func() bool { // an epoch of dropped batches stays so for ranks that may come again
		return !m.s.Finished() && (m.drop == nil || len(m.away) == 0)
	}
	for round := 0; open() || m.batchSize > 0 && !m.trained(); round++ {
		if round > 3000 {
			m.fail("the job does not come to its end: closed %d, frontier %v, returned %v, steps %v",
				m.s.closed, m.s.frontier, m.s.returned, pad{fast{m.s}}.stepsFrom(0))
		}
		for r, t := range m.trainers {
			m.plan()
			if m.away[uint32(r)] {
				continue
			}
			if t == nil || t.dead {
				m.start(uint32(r))
				continue
			}
			m.hand(t)
			m.call(t.request(m.draw), false)
		}
	}
}
