package autoscale

import "slices"

// fewSamples are too few to believe what a session that just began is said to cost: its first rows took the opening of
// files, too.
const fewSamples = 5

// need is what a session needs, by the newest samples.
type need struct {
	Session         // medians of what is known, means of the rest
	workers float64 // at the utilisation aimed at; 0: unknown
	wait    float64 // share of the trainers' time that is lost to waiting; see lost
	part    float64 // of them that it may have
	braked  bool
}

// workers is what a session needs by one sample, at the utilisation aimed at; 0: unknown.
func (c Config) workers(s *Session) float64 {
	return s.Demand * s.Cost / c.Utilisation
}

// within keeps a session to its share.
func (s *Session) within(workers float64) float64 {
	workers = max(workers, float64(s.MinWorkers))
	if s.MaxWorkers > 0 {
		workers = min(workers, float64(s.MaxWorkers))
	}
	return workers
}

// needs is what the sessions of the newest sample need.
func (c Config) needs(recent Window) []need {
	now := recent.newest()
	out := make([]need, len(now.Sessions))
	for i := range now.Sessions {
		out[i] = c.need(recent, &now.Sessions[i])
	}
	return out
}

func (c Config) need(recent Window, s *Session) need {
	n := need{Session: *s}
	n.Rate, n.Stall, n.Storage = 0, 0, 0
	var demands, costs, workers []float64
	samples := 0.0
	for i := range recent {
		one := recent[i].session(s.ID)
		if one == nil {
			continue
		}
		samples++
		n.Rate, n.Stall, n.Storage = n.Rate+one.Rate, n.Stall+one.Stall, n.Storage+one.Storage
		if one.Demand > 0 {
			demands = append(demands, one.Demand)
		}
		if one.Cost > 0 {
			costs = append(costs, one.Cost)
		}
		if w := c.workers(one); w > 0 {
			workers = append(workers, w)
		}
	}
	n.Rate, n.Stall, n.Storage = n.Rate/samples, n.Stall/samples, n.Storage/samples
	n.Demand, n.Cost = median(demands), median(costs)
	if len(workers) >= fewSamples || len(workers) > 0 && len(recent) < fewSamples {
		n.workers = median(workers)
	}
	n.part, n.wait = n.within(n.workers), n.lost()
	return n
}

// unknown tells that it is not known yet what a session's trainers need.
func (n *need) unknown() bool { return n.workers == 0 && n.Trainers > 0 }

// lost is the share of the trainers' time that is lost to waiting for data. Trainers that take their steps together
// wait in the collective for the one that waits for data, and seem to compute: then all lose what the one loses. They
// take as much less than they could, and so it shows, but a pause for a checkpoint shows like this, too, without
// anybody waiting.
func (n *need) lost() float64 {
	if n.Demand == 0 {
		return n.Stall
	}
	return max(n.Stall, min(1-n.Rate/n.Demand, n.Stall*float64(n.Trainers)))
}

// pace is the means of a session over a time. Trainers in step take rows by fits and starts where they wait for data:
// what they took in seconds says little.
func (w Window) pace(id string) *need {
	n := &need{}
	samples := 0.0
	for i := range w {
		if one := w[i].session(id); one != nil && one.Demand > 0 {
			n.Rate, n.Demand, n.Stall, n.Storage = n.Rate+one.Rate, n.Demand+one.Demand, n.Stall+one.Stall,
				n.Storage+one.Storage
			n.Trainers = one.Trainers
			samples++
		}
	}
	samples = max(1, samples)
	n.Rate, n.Demand, n.Stall, n.Storage = n.Rate/samples, n.Demand/samples, n.Stall/samples, n.Storage/samples
	return n
}

// total is what all sessions need that is known.
func (c Config) total(s *Sample, past Past) float64 {
	sum := 0.0
	for i := range s.Sessions {
		one := &s.Sessions[i]
		workers := past.lifted(one.ID, c.workers(one))
		if b := brakeOf(past.Brakes, one.ID); b != nil && b.holds(s.At) {
			workers = min(workers, b.Cap)
		}
		sum += one.within(workers)
	}
	return sum
}

func brakeOf(brakes []Brake, id string) *Brake {
	i := slices.IndexFunc(brakes, func(b Brake) bool { return b.Session == id })
	if i < 0 {
		return nil
	}
	return &brakes[i]
}
