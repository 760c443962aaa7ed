package autoscale

import (
	"slices"
	"time"

	"github.com/penstock-ml/penstock/master/words"
)

// More workers help a session that waits for workers, and no other. Which it is shows only when they are there: then
// the session's trainers take more rows, or wait less, or else the bottleneck is elsewhere, and the session gets no
// more than it had before. Storage, say, may be at its limit: each stream then waits longer for it, so that a row seems
// to cost more, and would seem to need yet more workers.

// Growth is a decision for more workers whose effect is not known yet.
type Growth struct {
	At       time.Time
	From, To int
	Arrived  time.Time // when most of the workers were there; zero: they are not
	Demand   float64   // rows/s, then
	Before   []Before  // the sessions that it was to help
}

// Before is a session as it was before a growth.
type Before struct {
	Session    string
	Rate, Wait float64 // rows/s, and the share of its trainers' time that was lost
	Part       float64 // of the workers that there were
}

// Brake keeps a session that more workers did not help to what it had.
type Brake struct {
	Session string
	Cap     float64 // workers
	Rate    float64 // rows/s that it got with them
	Since   time.Time
	Until   time.Time // then they are tried again, a few at a time
	Times   int       // that they were tried in vain
}

func (b *Brake) holds(at time.Time) bool { return at.Before(b.Until) }

const (
	// fewStalls is the share of their time that trainers may wait without harm.
	fewStalls = 0.01
	// muchStall is worth to do something about.
	muchStall = 0.02
	// severe is a stall that more workers are judged by: what less is left may be due to uneven streams.
	severe = 0.1
	// helped is the part of what more workers could have given at most that tells that they helped.
	helped = 0.5
	// worth is how much faster a session that takes all that comes must be for twice the workers to be worth it, if
	// they are not lazy.
	worth = 1.15
	// lazy is the part of the time aimed at for which workers that are of use are busy at least.
	lazy = 0.5
	// trial is how much more is tried of what did not help before, and storageTrial when storage got slower.
	trial, storageTrial = 1.25, 1.5
	// faster is how much faster a session must be for the bottleneck to have changed.
	faster = 1.3
)

// judge looks at the newest growth, and says which sessions it did not help. done is false while it is too early to
// say.
func (s *scaler) judge(g *Growth) (vain []Before, done bool) {
	arrived := !g.Arrived.IsZero()
	waited := s.now.At.Sub(g.At)
	switch {
	// somebody took it back, or it is too little to tell
	case s.now.Wanted < g.To, float64(g.To) < rest*float64(g.From):
		return nil, true
	case arrived && s.now.At.Sub(g.Arrived) < long*s.cfg.UpAfter, !arrived && waited < s.late():
		return nil, false
	case !arrived: // workers that did not come cannot have helped
		return nil, waited > 3*s.cfg.StartUp
	}
	for _, b := range g.Before {
		i := slices.IndexFunc(s.needs, func(n need) bool { return n.ID == b.Session })
		if i < 0 || b.Rate == 0 || s.needs[i].workers == 0 {
			continue
		}
		n := s.needs[i]
		if n.Demand < b.Rate { // its trainers have become slower than they were fed before
			continue
		}
		// One whose trainers had buffers left when storage got slow waits only now.
		if late := n.wait >= severe && n.Storage >= muchStorage; b.Wait < severe && !late {
			continue
		}
		if rate := s.window.last(long * s.cfg.UpAfter).pace(n.ID).Rate; rate > 0 {
			n.Rate = rate
		}
		if !s.idle(&n) && b.helped(&n, float64(s.now.Workers)/float64(g.From)) {
			continue
		}
		// Some had little to do: what they do, the session keeps. (Where storage is at its limit, all seem to have much
		// to do.)
		if use := n.Rate * n.Cost / s.cfg.Utilisation; use < s.had(&n) && n.Storage < muchStorage {
			b.Part = max(b.Part, use)
		}
		vain = append(vain, b)
	}
	return vain, true
}

// late is how long after they were asked for workers may be expected.
func (s *scaler) late() time.Duration { return s.cfg.StartUp + 3*s.cfg.UpAfter }

// idle tells whether a session's trainers wait though its workers have little to do: they take no more, or have no more
// streams.
func (s *scaler) idle(n *need) bool {
	return n.wait >= severe && n.Rate*n.Cost < lazy*s.cfg.Utilisation*s.had(n)
}

// helped tells whether a session does better with more workers than before.
func (b Before) helped(n *need, more float64) bool {
	if n.wait < muchStall || n.wait < 0.7*b.Wait {
		return true
	}
	could, limit := more, faster
	if n.Demand > 0 {
		could = min(could, n.Demand/b.Rate)
	}
	if words.Unbounded(n.Demand) {
		limit = worth
	}
	return n.Rate/b.Rate >= min(1+helped*(could-1), limit)
}

// brake notes that a growth was in vain for some sessions.
func (c Config) brake(brakes []Brake, vain []Before, needs []need, now time.Time) []Brake {
	out := slices.Clone(brakes)
	for _, b := range vain {
		next := Brake{Session: b.Session, Cap: b.Part, Rate: b.Rate, Since: now, Times: 1}
		i := slices.IndexFunc(out, func(o Brake) bool { return o.Session == b.Session })
		if i >= 0 {
			next.Times, next.Cap = out[i].Times+1, min(out[i].Cap, b.Part)
		}
		for _, n := range needs {
			if n.ID == b.Session {
				next.Rate = max(next.Rate, n.Rate)
			}
		}
		next.Until = now.Add(c.BrakeFor << min(next.Times-1, 4))
		if i >= 0 {
			out[i] = next
		} else {
			out = append(out, next)
		}
	}
	return out
}

// loosen drops the brakes that have no cause any more: the session is gone, its trainers do not wait, or it got faster
// by itself.
func (s *scaler) loosen() {
	s.past.Brakes = slices.DeleteFunc(slices.Clone(s.past.Brakes), func(b Brake) bool {
		i := slices.IndexFunc(s.needs, func(n need) bool { return n.ID == b.Session })
		if i < 0 {
			return true
		}
		n := s.needs[i]
		if n.wait < fewStalls && n.Rate > 0 {
			return true
		}
		if s.now.At.Sub(b.Since) < patience*s.cfg.UpAfter { // what it took before is no news
			return false
		}
		rate := s.window.last(patience * s.cfg.UpAfter).pace(b.Session).Rate
		return rate > faster*b.Rate && rate > 0
	})
}

// apply keeps needs to their brakes. One that has ended is tried with a few workers more.
func apply(brakes []Brake, needs []need, now *Sample) {
	for i := range needs {
		n := &needs[i]
		b := brakeOf(brakes, n.ID)
		if b == nil || n.workers <= b.Cap {
			continue
		}
		if b.holds(now.At) {
			n.part, n.braked = n.within(b.Cap), true
		} else {
			n.part = n.within(min(n.workers, max(b.Cap+1, trial*b.Cap)))
		}
	}
}
