package autoscale

import (
	"slices"
	"time"
)

// Lift is by how much more workers a session needs than what its rows cost says. Trainers that take their steps
// together are as fast as the slowest, and few streams do not spread evenly over workers: then trainers wait though no
// worker is busy all of the time. How much more is not searched for: if so many workers give so many rows, as many more
// give what trainers could take.
type Lift struct {
	Session string
	Factor  float64
	Workers float64 // that it came to: where the demand rises, more rows share what was to spare
	Demand  float64 // rows/s for which it was found: another demand may not need it
	Lost    float64 // share of the trainers' time, then
	Since   time.Time
}

const (
	// lostMuch is the share of time that trainers must lose for their session to be lifted.
	lostMuch = 0.04
	// recovers is the part of the time lost before that is lost now, where less and less is lost: it is not known yet
	// how much stays. Trainers that begin with empty buffers, or come out of a time with too few workers, fill them
	// little by little, and while they do the unluckiest of many holds up all.
	recovers = 0.8
	// lossy is for how many times UpAfter trainers may lose a little time, again and again, until their session is
	// lifted a little, and lostLittle is how much that is at least; lostSome is lifted after less. A lift that left
	// more than stillLost of what was lost was of no use, and is the last: training loops that are not as quick as they
	// could be lose time, too.
	lossy, lostLittle   = 18, 0.0075
	lossySome, lostSome = 12, 0.02
	stillLost           = 0.85
	// lifted at most, and each time.
	maxLift, maxOnce = 2, 1.1
	// tenth of all workers is the most that a lift adds, so that a fleet that was too small by a hair is not too large
	// by more than that.
	tenth = 0.1
	// spare is how many more workers it takes for trainers not to wait than for as many rows as they could take, had
	// they more to wait for: what evens streams out is workers that are not always busy.
	spare = 1.12
	// muchStorage is the share of a session's time in which storage may be what holds it up.
	muchStorage = 0.25
	// calm is for how long a lift holds.
	calm = 2 * time.Hour
	// another is how much a demand must change for it to be another.
	another = 1.3
)

// lifted is how many workers a session gets that needs so many by what its rows cost.
func (p Past) lifted(session string, workers float64) float64 {
	i := p.liftOf(session)
	if i < 0 {
		return workers
	}
	return max(workers, min(p.Lifts[i].Factor*workers, p.Lifts[i].Workers))
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
		lifted := s.past.lifted(n.ID, n.workers)
		had := s.had(n)
		switch { // if it has not what rows cost says, it has to grow to that first
		case !all || lifted >= (1+little)*had:
		case s.short(n):
			lifted = s.liftTo(n, spare*had*min(n.Demand/n.Rate, maxOnce), n.wait)
		default:
			if lost := s.losing(n); lost > 0 {
				if k := s.past.liftOf(n.ID); k < 0 || lost < stillLost*s.past.Lifts[k].Lost {
					lifted = s.liftTo(n, spare*had*min(1/(1-lost), maxOnce), lost)
				}
			}
		}
		if n.part == n.within(n.workers) { // and is not kept to less by a trial
			n.part = n.within(lifted)
		}
	}
}

// liftTo lifts a session to so many workers, as far as it may be, and returns to how many.
func (s *scaler) liftTo(n *need, workers, lost float64) float64 {
	factor := min(min(workers, s.had(n)+tenth*float64(s.now.Workers))/n.workers, maxLift)
	s.past.Lifts = slices.DeleteFunc(s.past.Lifts, func(l Lift) bool { return l.Session == n.ID })
	s.past.Lifts = append(s.past.Lifts, Lift{
		Session: n.ID, Factor: factor, Workers: n.workers * factor,
		Demand: n.Demand, Lost: lost, Since: s.now.At,
	})
	return n.workers * factor
}

// losing is the share of time that a session's trainers lose to waiting if it is more than they should, a little at a
// time, again and again; else 0. The less it is, the longer it takes to tell.
func (s *scaler) losing(n *need) (lost float64) {
	if lost = s.loss(n, lossySome, lostSome); lost == 0 {
		lost = s.loss(n, lossy, lostLittle)
	}
	return lost
}

// loss is the share of time that a session's trainers lost in so many times UpAfter; 0 if it was less than that in
// either half, or lately, or is on its way there.
func (s *scaler) loss(n *need, times time.Duration, minLoss float64) float64 {
	d := times * s.cfg.UpAfter
	if n.Rate == 0 || brakeOf(s.past.Brakes, n.ID) != nil || !s.steadyFor(d) {
		return 0
	}
	all := s.window.last(d)
	older, newer := all.halves(d)
	was, now := older.pace(n.ID), newer.pace(n.ID)
	if first := all[0].session(n.ID); first == nil || first.Demand == 0 || now.lost() < recovers*was.lost() {
		return 0
	}
	if lately := s.window.last(long * s.cfg.UpAfter).pace(n.ID); min(was.lost(), now.lost(), lately.lost()) < minLoss ||
		max(was.Storage, now.Storage) > muchStorage {
		return 0
	}
	return all.pace(n.ID).lost()
}

// loses tells whether any session loses time so.
func (s *scaler) loses() bool {
	return slices.ContainsFunc(s.needs, func(n need) bool { return s.losing(&n) > 0 })
}

// short tells whether a session's trainers have lost much time to waiting for a while, and do now, with workers that
// are anything but idle.
func (s *scaler) short(n *need) bool {
	if n.wait < lostMuch || n.Rate > (1-lostMuch)*n.Demand || n.Storage > muchStorage {
		return false
	}
	was := s.window.last(patience * s.cfg.UpAfter).pace(n.ID)
	return s.loss(n, patience, lostMuch) > 0 && n.Rate < rest*was.Rate && n.Demand < another*was.Demand
}
