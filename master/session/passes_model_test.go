package session

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

// modelPasses is what the model knows of epochs that training loops left.
type modelPasses struct {
	some      map[uint32]bool // that some loop left
	abandoned map[uint32]bool // that closed with a rest, or lie before restored States of which all had left them
	apart     bool            // ranks left at different places, and so are not in step any more
}

func newModelPasses() *modelPasses {
	return &modelPasses{some: map[uint32]bool{}, abandoned: map[uint32]bool{}}
}

// leavePass lets a trainer, or all of them where they are at one place, leave the epoch that it is in.
func (m *model) leavePass() {
	t := m.someone()
	if t == nil || t.leaving {
		return
	}
	if t.loop == nil {
		if epoch := max(t.closed, t.from); epoch < m.id.Epochs && epoch <= t.closed+1 {
			m.passes.some[epoch] = true
			t.from = epoch + 1
		}
		return
	}
	all := m.atOnePlace()
	if m.draw(3) == 0 {
		m.passes.apart, all = true, []*trainer{t}
	}
	for _, u := range all { // all, or none: they stay at one place
		if at := u.loop.at.Epoch; at >= m.id.Epochs || at > u.closed+1 {
			return
		}
	}
	for _, u := range all {
		at := u.loop.at.Epoch
		m.passes.some[at] = true
		u.from, u.loop.at = at+1, Steps{Epoch: at + 1}
		u.came = nil
	}
}

// atOnePlace are all trainers, if all of them run and are at one place.
func (m *model) atOnePlace() []*trainer {
	for _, t := range m.trainers {
		if t == nil || t.dead || t.leaving || t.generation == 0 || t.loop.at != m.trainers[0].loop.at {
			return nil
		}
	}
	return m.trainers
}

// unconsumed is what nobody has handed over, as far as a session knows once it has got a command.
func (m *model) unconsumed(c Command) position.Set {
	if m.passes == nil {
		return nil
	}
	out := m.s.returned.Union(position.Set{(fast{m.s}).ungranted()})
	for _, k := range m.s.ranks {
		if k != nil {
			out = out.Union(k.held)
		}
	}
	if q, ok := c.(Sync); ok {
		out = out.Subtract(q.Consumed)
	}
	return out
}

// closedSince checks that epochs which closed with a rest of what was unconsumed were left by all ranks that are there,
// and counted.
func (m *model) closedSince(c Command, closed, abandoned uint32, unconsumed position.Set) {
	if m.passes == nil || m.drop != nil {
		return
	}
	for ; closed < m.s.closed; closed++ {
		if _, restores := c.(Join); restores { // to states that were taken after it, see abandonedBefore
			continue
		}
		if len(m.d.rows(within(unconsumed, closed).Subtract(m.skipped()))) == 0 {
			continue
		}
		if !m.passes.some[closed] {
			m.fail("epoch %d closed with a rest, and nobody left it", closed)
		}
		m.passes.abandoned[closed] = true
		for _, t := range m.trainers {
			k := m.s.rank(t.number())
			if k != nil && k.present() && t.generation == m.s.generation && t.incarnation == k.incarnation &&
				t.epoch() <= closed {
				m.fail("epoch %d closed with a rest, and %v has not left it", closed, t)
			}
		}
		if m.s.abandonedEpochs == abandoned {
			m.fail("epoch %d closed with a rest, which is not counted", closed)
		}
	}
}

func (t *trainer) number() uint32 {
	if t == nil {
		return ^uint32(0)
	}
	return t.rank
}

// epoch is the one that the training loop is in.
func (t *trainer) epoch() uint32 {
	if t.loop != nil {
		return t.loop.at.Epoch
	}
	return max(t.from, t.ended)
}

// abandonedBefore are the epochs before one in which all training loops are of which nobody has to get the rest, if the
// job is restored to States that are taken now. Of an epoch that the session has closed the rest is abandoned if it
// closed with one. One that it has not closed they have left, or they would still be in it: their States name a later
// epoch, so that a restore leaves out what nobody had got of it. That holds whatever becomes of the epoch before the
// restore: new starts of ranks that died before a Sync told that they had left may read it to its end, and that counts
// for nothing once the States are restored.
func (m *model) abandonedBefore(epoch uint32) map[uint32]bool {
	if m.passes == nil {
		return nil
	}
	out := map[uint32]bool{}
	for e := range epoch {
		if m.passes.abandoned[e] || e >= m.s.closed && m.passes.some[e] {
			out[e] = true
		}
	}
	return out
}

// backTo forgets which epochs were abandoned since what was restored, for they are read again, and goes on from those
// that were by then.
func (p *modelPasses) backTo(abandoned map[uint32]bool) {
	if p == nil {
		return
	}
	p.abandoned = map[uint32]bool{}
	maps.Copy(p.abandoned, abandoned)
}

// isApart reports whether the training loops are not in step, since some left epochs alone.
func (m *model) isApart() bool { return m.passes != nil && m.passes.apart }

// isAbandoned reports whether nobody has to have got a row.
func (m *model) isAbandoned(row position.Position) bool {
	return m.passes != nil && m.passes.abandoned[row.Epoch]
}

func TestModelOfPasses(t *testing.T) {
	endsWell(t, map[string]chaos{
		"passes":                             {steps: 300, passes: true},
		"passes, deaths":                     {steps: 300, passes: true, deaths: true},
		"passes, restores":                   {steps: 300, passes: true, deaths: true, restores: true},
		"passes, checkpoints":                {steps: 300, passes: true, deaths: true, checkpoints: true},
		"passes, in step":                    {steps: 300, passes: true, pad: true},
		"passes, in step, deaths":            {steps: 300, passes: true, pad: true, deaths: true},
		"passes, in step, restores":          {steps: 300, passes: true, pad: true, deaths: true, restores: true},
		"passes, in step, checkpoints":       {steps: 300, passes: true, pad: true, deaths: true, checkpoints: true},
		"passes, dropping":                   {steps: 300, passes: true, drop: true},
		"passes, dropping, deaths":           {steps: 300, passes: true, drop: true, deaths: true},
		"passes, dropping, deaths, restores": {steps: 300, passes: true, drop: true, deaths: true, restores: true},
	})
}

// TestModelFindsBugsInPasses shows that it can fail.
func TestModelFindsBugsInPasses(t *testing.T) {
	findsBugs(t, 3000, bugsInPasses(), func(seed uint64, execute executor) error {
		return run(rand.New(rand.NewPCG(seed, 0)).IntN, chaos{
			steps: 150, passes: true, deaths: seed%2 == 0,
			pad: seed%3 == 0, restores: seed%5 == 4, execute: execute,
		})
	})
}

func bugsInPasses() map[string]executor {
	return map[string]executor{
		"a pass that one rank left is over for all": func(s *State, c Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(c)
			if q, ok := c.(Sync); ok && err == nil && q.From > s.closed {
				for i, k := range s.ranks {
					if k != nil {
						k.steps = Steps{Epoch: max(k.steps.Epoch, min(q.From, s.closed+1))}
						ch.rank(uint32(i))
					}
				}
				s.closeEpochs(&ch)
				r = s.answer(&q, s.rank(q.Rank))
			}
			return r, ch, err
		},
		"what a rank held that left is lost": func(s *State, c Command) (Reply, Changes, error) {
			q, ok := c.(Sync)
			var held position.Set
			if k := s.rank(q.Rank); ok && k != nil && q.From > k.steps.Epoch {
				held = k.held
			}
			r, ch, err := s.Apply(c)
			if lost := held.Intersect(s.returned); err == nil && len(lost) > 0 {
				s.returned, s.base = s.returned.Subtract(lost), s.base.Union(lost)
			}
			return r, ch, err
		},
		"that a rank left is not written": func(s *State, c Command) (Reply, Changes, error) {
			q, ok := c.(Sync)
			before := s.closed + 1
			if k := s.rank(q.Rank); ok && k != nil {
				before = k.steps.Epoch
			}
			r, ch, err := s.Apply(c)
			if k := s.rank(q.Rank); ok && err == nil && k != nil && k.steps.Epoch > s.closed && before <= s.closed {
				ch.Ranks = nil
			}
			return r, ch, err
		},
		"who left waits for those that are gone": func(s *State, c Command) (Reply, Changes, error) {
			q, ok := c.(Sync)
			if ok && q.From > s.closed {
				for _, k := range s.ranks {
					if k != nil && !k.present() {
						q.From = 0
						c = q
					}
				}
			}
			return s.Apply(c)
		},
		"a restore goes on after an epoch that one rank had left": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Join); ok && len(s.leftEpochs) > 0 {
				q.Restore = slices.Clone(q.Restore)
				for i, p := range q.Restore {
					if p.Closed == s.leftEpochs[0].Epoch {
						start := position.Position{Epoch: p.Closed + 1}
						p.Closed, p.Handed = p.Closed+1, 0
						p.Base, p.Consumed = from(p.Base, start), from(p.Consumed, start)
						q.Restore[i] = p
					}
				}
				c = q
			}
			return s.Apply(c)
		},
		"who left is granted more of it": func(s *State, c Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(c)
			if q, ok := c.(Sync); ok && err == nil && q.From > s.closed && !q.Leave && len(s.returned) > 0 &&
				s.returned[0].From.Epoch == s.closed {
				k := s.ranks[q.Rank]
				k.held = k.held.Union(fast{s}.take(s.closed, 1))
				ch.rank(q.Rank)
				ch.Head = true
			}
			return r, ch, err
		},
	}
}
