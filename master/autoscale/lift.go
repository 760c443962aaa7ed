package autoscale

import (
	"slices"
	"time"
)

// Lift is by how much more workers a session needs than what its rows cost says. Trainers that take their steps together are as fast
// as the slowest, and few streams do not spread evenly over workers: then trainers wait though no worker is busy all of the time.
// How much more is not searched for: if so many workers give so many rows, as many more give what trainers could take.
type Lift struct {
	Session string
	Factor  float64
	Demand  float64 // rows/s for which it was found: another demand may not need it
	Lost    float64 // share of the trainers' time, then
	Since   time.Time
}

const (
	// lostMuch is the share of time that trainers must lose for their session to be lifted.
	lostMuch = 0.04
	// recovers is the part of the time lost lately that is lost now, where less and less is lost: it is not known yet how much stays.
	recovers = 0.8
	// lossy is for how many times UpAfter trainers may lose a little time, again and again, until their session is lifted a little, and
	// lostLittle is how much that is at least. A lift that left more than stillLost of what was lost was of no use, and is the last:
	// training loops that are not as quick as they could be lose time, too.
	lossy                 = 30
	lostLittle, stillLost = 0.0075, 0.85
	// lifted at most, and each time.
	mostLift, mostOnce = 2, 1.1
	// spare is how many more workers it takes for trainers not to wait than for as many rows as they could take, had they more to
	// wait for: what evens streams out is workers that are not always busy.
	spare = 1.05
	// muchStorage is the share of a session's time in which storage may be what holds it up.
	muchStorage = 0.25
	// calm is for how long a lift holds.
	calm = 2 * time.Hour
	// another is how much a demand must change for it to be another.
	another = 1.3
)

func (p Past) lifted(session string) float64 {
	if i := p.liftOf(session); i >= 0 {
		return p.Lifts[i].Factor
	}
	return 1
}

func (p Past) liftOf(session string) int {
	return slices.IndexFunc(p.Lifts, func(l Lift) bool { return l.Session == session })
}

// lift applies the lifts that there are, and finds out which sessions need one.
func (s *scaler) lift() {
	s.past.Lifts = slices.DeleteFunc(slices.Clone(s.past.Lifts), func(l Lift) bool {
		i := slices.IndexFunc(s.needs, func(n need) bool { return n.ID == l.Session })
		if i < 0 || brakeOf(s.past.Brakes, l.Session) != nil || s.now.At.Sub(l.Since) > calm {
			return true
		}
		d := s.needs[i].Demand
		return d > another*l.Demand || d*another < l.Demand
	})
	all := s.now.Workers == s.now.Wanted && s.past.Growth == nil && !slices.ContainsFunc(s.needs, func(n need) bool {
		return n.unknown() // and takes of the workers from others what it can
	})
	for i := range s.needs {
		n := &s.needs[i]
		if n.braked || n.workers == 0 {
			continue
		}
		lifted := n.workers * s.past.lifted(n.ID)
		had := s.had(n)
		switch { // if it has not what rows cost says, it has to grow to that first
		case !all || lifted >= (1+little)*had:
		case s.short(n):
			lifted = s.liftTo(n, spare*had*min(n.Demand/n.Rate, mostOnce), n.wait)
		case s.losing(n):
			lost := s.window.last(lossy * s.cfg.UpAfter).pace(n.ID).lost()
			if k := s.past.liftOf(n.ID); k < 0 || lost < stillLost*s.past.Lifts[k].Lost {
				lifted = s.liftTo(n, spare*had, lost)
			}
		}
		if n.part == n.within(n.workers) { // and is not kept to less by a trial
			n.part = n.within(lifted)
		}
	}
}

// liftTo lifts a session to so many workers, as far as it may be, and returns to how many.
func (s *scaler) liftTo(n *need, workers, lost float64) float64 {
	factor := min(workers/n.workers, mostLift)
	s.past.Lifts = slices.DeleteFunc(s.past.Lifts, func(l Lift) bool { return l.Session == n.ID })
	s.past.Lifts = append(s.past.Lifts, Lift{Session: n.ID, Factor: factor, Demand: n.Demand, Lost: lost, Since: s.now.At})
	return n.workers * factor
}

// losing tells whether a session's trainers lose more time to waiting than they should, a little at a time, again and again.
func (s *scaler) losing(n *need) bool {
	d := lossy * s.cfg.UpAfter
	if n.Rate == 0 || brakeOf(s.past.Brakes, n.ID) != nil || !s.steadyFor(d) {
		return false
	}
	all, newer := s.window.last(d), s.window.last(d/2)
	for _, part := range []Window{all[:len(all)-len(newer)], newer} {
		if now := part.pace(n.ID); now.lost() < lostLittle || now.Storage > muchStorage {
			return false
		}
	}
	return true
}

// loses tells whether any session loses time so.
func (s *scaler) loses() bool {
	return slices.ContainsFunc(s.needs, func(n need) bool { return s.losing(&n) })
}

// short tells whether a session's trainers have lost time to waiting for a while, with workers that are anything but idle.
func (s *scaler) short(n *need) bool {
	if n.wait < lostMuch || n.Rate == 0 || n.Rate > (1-lostMuch)*n.Demand || n.Storage > muchStorage || !s.steadyFor(patience*s.cfg.UpAfter) || brakeOf(s.past.Brakes, n.ID) != nil {
		return false
	}
	before := s.window.last(long * s.cfg.UpAfter)
	was := s.cfg.need(before, s.now.session(n.ID))
	first := before[0].session(n.ID)
	if n.wait < recovers*was.wait {
		return false
	}
	return was.wait >= lostMuch && was.Storage < muchStorage && n.Rate < rest*was.Rate && first != nil && first.Demand > 0 && n.Demand < another*was.Demand
}
