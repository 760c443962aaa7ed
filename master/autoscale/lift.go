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
	Since   time.Time
}

const (
	// lostMuch is the share of time that trainers must lose for their session to be lifted.
	lostMuch = 0.04
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
		if had := s.had(n); all && s.short(n) && lifted < slack*had {
			factor := min(spare*had*min(n.Demand/n.Rate, mostOnce)/n.workers, mostLift)
			if k := s.past.liftOf(n.ID); k >= 0 {
				s.past.Lifts = slices.Delete(s.past.Lifts, k, k+1)
			}
			s.past.Lifts = append(s.past.Lifts, Lift{Session: n.ID, Factor: factor, Demand: n.Demand, Since: s.now.At})
			lifted = n.workers * factor
		}
		if n.part == n.within(n.workers) { // and is not kept to less by a trial
			n.part = n.within(lifted)
		}
	}
}

// short tells whether a session's trainers have lost time to waiting for a while, with workers that are anything but idle.
func (s *scaler) short(n *need) bool {
	if n.wait < lostMuch || n.Rate == 0 || n.Rate > (1-lostMuch)*n.Demand || n.Storage > muchStorage || !s.steady() || brakeOf(s.past.Brakes, n.ID) != nil {
		return false
	}
	before := s.window.last(3 * s.cfg.UpAfter)
	was := s.cfg.need(before, s.now.session(n.ID))
	first := before[0].session(n.ID)
	return was.wait >= lostMuch && was.Storage < muchStorage && n.Rate < rest*was.Rate && first != nil && first.Demand > 0 && n.Demand < another*was.Demand
}
