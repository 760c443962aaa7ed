package autoscale

import (
	"iter"
	"math"
	"slices"
	"time"
)

// Window is the newest samples, the oldest first. They reach back for as long as Decide looks.
type Window []Sample

// Add appends a sample, as far as it can be true, and forgets those that are too old. Samples must come in the order of
// their times. Windows that were returned before stay as they are for as long as only the newest is added to.
func (w Window) Add(cfg Config, s Sample) Window {
	oldest := s.At.Add(-cfg.TrimAfter - cfg.UpAfter)
	i := 0
	for i < len(w) && w[i].At.Before(oldest) {
		i++
	}
	return append(w[i:], s.sane())
}

// greatest and smallest bound what may have been measured: rows/s, and seconds that a row costs.
const greatest, smallest = 1e15, 1e-12

// sane is a sample without what cannot have been measured: numbers that are none, negative ones, shares of more than
// all.
func (s Sample) sane() Sample {
	number := func(x, limit float64) float64 {
		if math.IsNaN(x) {
			return 0 // unknown
		}
		return min(max(x, 0), limit)
	}
	s.Workers, s.Wanted, s.Silent, s.Busy = max(s.Workers, 0), max(s.Wanted, 0), max(s.Silent, 0), number(s.Busy, 1)
	s.Sessions = slices.Clone(s.Sessions)
	for i := range s.Sessions {
		one := &s.Sessions[i]
		one.Trainers, one.MinWorkers, one.MaxWorkers = max(one.Trainers, 0), max(one.MinWorkers, 0), max(one.MaxWorkers,
			0)
		one.Demand, one.Rate, one.Cost = number(one.Demand, greatest), number(one.Rate, greatest), number(one.Cost,
			greatest)
		if one.Cost < smallest {
			one.Cost = 0
		}
		one.Stall, one.Storage = number(one.Stall, 1), number(one.Storage, 1)
	}
	return s
}

func (w Window) newest() *Sample { return &w[len(w)-1] }

// last is the part of the window that is no older than d.
func (w Window) last(d time.Duration) Window {
	from := w.newest().At.Add(-d)
	i := len(w)
	for i > 0 && w[i-1].At.After(from) {
		i--
	}
	return w[i:]
}

// halves parts a window of d in the middle of that time.
func (w Window) halves(d time.Duration) (older, newer Window) {
	newer = w.last(d / 2)
	return w[:len(w)-len(newer)], newer
}

// covers reports whether the window reaches back for d.
func (w Window) covers(d time.Duration) bool {
	return !w[0].At.After(w.newest().At.Add(-d))
}

// peak is the greatest of the medians of f over stretches of a window. A stretch is as long as the measurement that
// growing needs, so what the peak was is what the fleet would have been grown to.
func (w Window) peak(stretch time.Duration, f func(*Sample) float64) (highest float64) {
	for m := range w.medians(stretch, f) {
		highest = max(highest, m)
	}
	return highest
}

// lowest is the lowest of the medians of f that are not 0, or 0.
func (w Window) lowest(stretch time.Duration, f func(*Sample) float64) (lowest float64) {
	for m := range w.medians(stretch, f) {
		if m > 0 && (lowest == 0 || m < lowest) {
			lowest = m
		}
	}
	return lowest
}

// medians goes over the medians of f over stretches of a window, from the newest one back.
func (w Window) medians(stretch time.Duration, f func(*Sample) float64) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		for end := len(w); end > 0; {
			from := w[:end].last(stretch)
			if !yield(from.median(f)) {
				return
			}
			end -= len(from)
		}
	}
}

func (w Window) median(f func(*Sample) float64) float64 {
	values := make([]float64, len(w))
	for i := range w {
		values[i] = f(&w[i])
	}
	return median(values)
}

func (w Window) mean(f func(*Sample) float64) float64 {
	sum := 0.0
	for i := range w {
		sum += f(&w[i])
	}
	return sum / float64(len(w))
}

// median of values, which it sorts; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func (s *Sample) session(id string) *Session {
	for i := range s.Sessions {
		if s.Sessions[i].ID == id {
			return &s.Sessions[i]
		}
	}
	return nil
}

func (s *Sample) busy() float64 { return s.Busy }

// stall is the share of all trainers' time for which they waited.
func (s *Sample) stall() float64 {
	trainers, waited := 0, 0.0
	for _, one := range s.Sessions {
		trainers += one.Trainers
		waited += one.Stall * float64(one.Trainers)
	}
	return waited / float64(max(1, trainers))
}
