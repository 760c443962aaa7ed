package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// saved is a checkpoint of the whole job.
type saved struct {
	states          []Checkpoint
	handed, excused tally
	skipped         position.Set // as of the newest state
	stale           []stale      // of ranks that had left
	abandoned       map[uint32]bool
}

// stale is a rank's state of an earlier step.
type stale struct {
	state Checkpoint
	of    *trainer
	since int // which of its rows came after it
}

// part takes a rank's state and lets it go on and leave, as all others hear, before the job is saved.
func (m *model) part() {
	t := m.someone()
	if t == nil || t.leaving || m.draw(4) > 0 {
		return
	}
	m.taken[t.rank] = m.come(t)
	for range m.draw(3) {
		m.hand(t)
	}
	t.leaving = true
	for _, u := range append([]*trainer{t}, m.trainers...) {
		if u != nil && !u.dead && u.generation > 0 {
			m.call(u.request(m.draw), false)
		}
	}
	m.checkpoint()
}

// checkpoint saves the job, if all ranks of it run, and know each other, at one step. They take their States of it at
// different moments.
func (m *model) checkpoint() {
	c := saved{handed: m.handed.clone(), excused: m.excused.clone()}
	step := m.slowest()
	for r, k := range m.s.ranks {
		t := m.trainers[r]
		runs := t != nil && !t.dead && !t.cut && !t.leaving && t.generation == m.s.generation
		if k == nil || k.departed && !runs {
			if old, ok := m.taken[uint32(r)]; ok && k != nil && old.of == t && old.state.Generation == m.s.generation {
				c.stale = append(c.stale, old)
			}
			continue
		}
		if !runs || t.incarnation != k.incarnation {
			return
		}
		at := slices.DeleteFunc(append(t.came[:len(t.came):len(t.came)], m.come(t)),
			func(at stale) bool { return t.loop != nil && at.state.place() != step })
		if len(at) == 0 {
			return
		}
		taken := at[m.draw(len(at))]
		c.states = append(c.states, taken.state)
		for _, row := range t.log[taken.since:] {
			c.handed[row]--
		}
	}
	if len(c.states) == 0 {
		return
	}
	newest := slices.MaxFunc(c.states, func(a, b Checkpoint) int { return int(a.BaseVersion) - int(b.BaseVersion) })
	for _, p := range c.states {
		if p.place() != newest.place() || newest.behind() && !newest.Base.Covers(p.Base) { // refused
			return
		}
	}
	if !newest.Base.Covers(newest.forgotten()) { // so are these
		return
	}
	left := slices.ContainsFunc(m.s.ranks, func(k *rank) bool { return k != nil && k.departed })
	if left && newest.BaseVersion != m.s.baseVersion { // nobody of those who stay has heard of it
		return
	}
	c.skipped = m.skipped().Intersect(newest.Base.Union(position.Set{{To: position.Position{Epoch: newest.Closed}}}))
	c.abandoned = m.abandonedBefore(newest.Closed)
	m.saved = &c
}

// slowest is the place of the training loop that is furthest behind.
func (m *model) slowest() Steps {
	step := Steps{Epoch: m.id.Epochs}
	for _, t := range m.trainers {
		if t != nil && t.loop != nil && !t.dead && t.loop.at.compare(step) < 0 {
			step = t.loop.at
		}
	}
	return step
}

// come is a trainer's State now.
func (m *model) come(t *trainer) stale {
	return stale{t.state(m.id.Session, m.s.world), t, len(t.log)}
}

// place is that of the training loop.
func (p Checkpoint) place() Steps { return Steps{Epoch: p.Closed, Handed: p.Handed} }

// restoreJob kills the job and starts it again from its checkpoint, with another number of ranks, in some attempts.
func (m *model) restoreJob() {
	if m.saved == nil {
		return
	}
	for _, t := range m.trainers {
		if t != nil {
			t.dead = true
		}
	}
	for range m.draw(3) {
		if ranks := m.attempt(); m.joinAll(ranks, 1+m.draw(6)) {
			break // complete, and then it died
		}
	}
	m.handed, m.excused, m.before = m.saved.handed.clone(), m.saved.excused.clone(), m.saved.skipped
	if m.restoreMixed() {
		return
	}
	ranks := m.attempt()
	if !m.joinAll(ranks, 1000) {
		m.fail("the restore does not come to its end")
	}
	m.replace(ranks)
}

func (m *model) replace(ranks []*restorer) {
	m.trainers, m.began, m.gone = m.trainers[:0], tally{}, tally{}
	m.passes.backTo(m.saved.abandoned)
	for _, p := range m.saved.states {
		for _, row := range m.d.rows(p.covers()) {
			m.began[row] = 1
		}
	}
	for _, r := range ranks {
		r.t.all = tally{}
		m.trainers = append(m.trainers, r.t)
	}
}

// restoreMixed brings a state of a rank that left, too. If it is of an earlier step, the rows in between do not count
// as handed over. It reports whether the job was restored.
func (m *model) restoreMixed() bool {
	old := m.saved.stale
	if len(old) == 0 || m.draw(2) == 0 {
		return false
	}
	mixed := old[m.draw(len(old))]
	ranks := m.attempt()
	r := ranks[m.draw(len(ranks))]
	r.join.Restore = append(r.join.Restore, mixed.state)
	last := len(mixed.of.log) == mixed.since && mixed.state.Closed == m.saved.states[0].Closed &&
		len(mixed.state.forgotten()) == 0
	for _, r := range slices.Concat(ranks, ranks, ranks) {
		switch reply, err := m.insist(r.join); {
		case err != nil && last:
			m.fail("%v: its last state is refused: %w", mixed.of, err)
		case err != nil:
			return false
		case reply.Kind == pb.JoinKind_RESTORED:
			r.t.joined(reply)
		}
	}
	for _, row := range mixed.of.log[mixed.since:] {
		m.handed[row]--
	}
	m.replace(ranks)
	return true
}

// moveJob loses the etcd, kills the job and starts it again from its checkpoint, as the same session or as another.
func (m *model) moveJob() {
	if m.saved == nil {
		return
	}
	for _, t := range m.trainers {
		if t != nil {
			t.dead = true
		}
	}
	m.lives++
	again := m.draw(2) == 0
	if !again {
		m.id.Session, m.network = m.nonce(), nil
	}
	for _, q := range m.network {
		q.from.orphan = true
	}
	m.moved = true
	m.etcd, m.id.FirstWorldSize = map[string][]byte{}, uint32(1+m.draw(3))
	s, err := New(m.id)
	if err != nil {
		m.fail("%w", err)
	}
	m.s, m.trainers = s, make([]*trainer, m.id.FirstWorldSize)
	m.parts = map[uint64]map[uint32]tally{} // orders are counted anew
	m.write(Changes{Head: true})
	for range m.draw(8) {
		m.plan()
	}
	if !again { // a job may have begun there without the checkpoint
		m.begin()
	}
	m.restoreJob()
}

// begin lets a job take a few steps.
func (m *model) begin() {
	for range m.draw(4) {
		r := m.draw(len(m.trainers))
		m.start(uint32(r))
		m.hand(m.trainers[r])
		m.call(m.trainers[r].request(m.draw), false)
		m.plan()
	}
}

// abandon lets some ranks of a new job begin a restore and die, while the old job goes on.
func (m *model) abandon() {
	if m.saved == nil {
		return
	}
	ranks := m.attempt()
	for _, r := range ranks[1:] {
		if m.draw(2) == 0 {
			m.must(r.join)
		}
	}
}

// restorer is a rank that takes part in a restore.
type restorer struct {
	t    *trainer
	join Join
	done bool
}

// attempt deals the states to the ranks of a new world.
func (m *model) attempt() []*restorer {
	ranks := make([]*restorer, 1+m.draw(m.mostWorld))
	for i := range ranks {
		t := &trainer{rank: uint32(i), nonce: m.nonce(), loop: m.newLoop(), faults: m.faults}
		ranks[i] = &restorer{t: t, join: t.joinCommand(uint32(len(ranks)))}
		ranks[i].join.Restoring = true
	}
	for _, p := range m.saved.states {
		r := ranks[m.draw(len(ranks))]
		r.join.Restore = append(r.join.Restore, p)
	}
	return ranks
}

// joinAll lets ranks call until all are restored or the calls are used up. Old calls arrive in between.
func (m *model) joinAll(ranks []*restorer, calls int) bool {
	for range calls {
		r := ranks[m.draw(len(ranks))]
		reply := m.must(r.join)
		switch {
		case reply.Kind == pb.JoinKind_RESTORED:
			if m.draw(4) > 0 {
				r.t.joined(reply)
				r.done = true
			}
		case reply.Kind != pb.JoinKind_JOIN_KIND_UNSPECIFIED || len(reply.WaitingFor) == 0:
			m.fail("rank %d joined a restore: %+v", r.t.rank, reply)
		}
		if !slices.ContainsFunc(ranks, func(r *restorer) bool { return !r.done }) {
			return true
		}
		switch m.draw(6) {
		case 0:
			m.restart()
		case 1:
			m.deliver()
		}
	}
	return false
}
