package session

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/penstock-ml/penstock/api/position"
)

// obey takes over what a Sync was answered about a checkpoint.
func (t *trainer) obey(o *Order) {
	switch {
	case o == nil:
		t.order, t.part = nil, nil
	case t.order == nil || t.order.ID != o.ID:
		t.order, t.part = o, nil
		if uint64(t.batches) >= o.Batches {
			t.part = &Part{ID: o.ID, Missed: true}
		}
	}
}

// batchOf notes a batch that a trainer handed over, and takes its State if that was ordered.
func (m *model) batchOf(t *trainer, rows []position.Position, batch bool) {
	for _, row := range rows {
		t.all[row] = 1
	}
	if !batch {
		return
	}
	t.batches++
	o := t.order
	if o == nil || t.part != nil || uint64(t.batches) != o.Batches {
		return
	}
	state := t.state(m.id.Session, m.s.world)
	t.part = &Part{ID: o.ID, State: &state}
	if m.parts[o.ID] == nil {
		m.parts[o.ID] = map[uint32]tally{}
	}
	m.parts[o.ID][t.rank] = t.all.clone()
}

// covers is all that a state says is consumed.
func (p Checkpoint) covers() position.Set {
	return p.Base.Union(p.Consumed).Union(position.NewSet(position.Interval{To: position.Position{Epoch: p.Closed}}))
}

// take asks for a named checkpoint.
func (m *model) take() {
	_, err := m.apply(CreateCheckpoint{Name: fmt.Sprint(m.draw(3)), Nonce: m.nonce(), Now: 1})
	if err != nil && !errors.Is(err, ErrCheckpoint) && !errors.Is(err, ErrCheckpointExists) {
		m.fail("take: %w", err)
	}
}

// trainOn lets all ranks run for a while.
func (m *model) trainOn() {
	for range 2 + m.draw(6) {
		for r, t := range m.trainers {
			m.plan()
			if t == nil || t.dead {
				m.start(uint32(r))
				continue
			}
			m.hand(t)
			m.call(t.request(m.draw), false)
		}
	}
}

// giveUp deletes a checkpoint, or gives it up.
func (m *model) giveUp() {
	if _, err := m.apply(DeleteCheckpoint{Name: fmt.Sprint(m.draw(3))}); err != nil &&
		!errors.Is(err, ErrNoCheckpoint) {
		m.fail("give up: %w", err)
	}
}

// verify checks that a checkpoint has the rows that its ranks had when their loops got the batch of its step, and no
// others.
func (m *model) verify(n *Named) {
	want := m.began.clone()
	m.include(want, m.gone)
	m.include(want, tallyOf(m.d.rows(position.NewSet(position.Interval{To: position.Position{Epoch: n.State.Closed}}))))
	for r, k := range m.s.ranks {
		if k == nil {
			continue
		}
		part, brought := m.parts[m.s.taking.id][uint32(r)]
		switch {
		case brought:
			m.include(want, part)
		case k.departed && m.trainers[r] != nil:
			m.include(want, m.trainers[r].all)
		case !k.departed:
			m.fail("checkpoint %q of step %d has no state of rank %d", n.Name, n.Step, r)
		}
	}
	if got := tallyOf(m.d.rows(n.State.covers())); !maps.Equal(got, want) {
		m.fail("checkpoint %q of step %d has %d rows, want %d: %v and %v", n.Name, n.Step, len(got), len(want), got,
			want)
	}
	m.kept, m.truth = n, want
}

// checkTogether checks that ranks in step take their States for a checkpoint at one place.
func (m *model) checkTogether() {
	if m.batchSize > 0 && !m.isApart() && strings.Contains(m.s.taking.retried, "not in step") {
		m.fail("checkpoint %q: %s", m.s.taking.name, m.s.taking.retried)
	}
}

func (m *model) include(t, u tally) {
	for row := range u {
		t[row] = 1
	}
}

func tallyOf(rows []position.Position) tally {
	t := tally{}
	t.add(rows)
	return t
}

// restoreNamed puts the session back to a named checkpoint, of this etcd or from outside.
func (m *model) restoreNamed() {
	if m.kept == nil {
		return
	}
	c := Restore{Checkpoint: *m.kept, World: uint32(m.draw(4)), Nonce: m.nonce()}
	if n := m.s.Named(m.kept.Name); n != nil && n.Nonce == m.kept.Nonce && m.draw(2) == 0 {
		c.Checkpoint = Named{Name: n.Name}
	}
	_, err := m.apply(c)
	if errors.Is(err, ErrRestore) && m.kept.State.Generation > m.s.generation {
		return // a lost etcd's, and ranks were granted rows since
	}
	if err != nil {
		m.fail("restore: %w", err)
	}
	generation := m.s.generation
	if m.draw(2) == 0 {
		m.restart()
	}
	m.must(c)
	if m.s.generation != generation {
		m.fail("a repeated restore is another generation")
	}
	for _, t := range m.trainers {
		if t != nil {
			t.dead = true
		}
	}
	m.trainers, m.gone = make([]*trainer, m.s.world), tally{}
	m.began, m.handed, m.excused = m.truth.clone(), m.truth.clone(), tally{}
	m.passes.backTo(nil) // the truth counts all rows of epochs before it
}
