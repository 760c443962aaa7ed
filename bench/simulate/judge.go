package main

import (
	"fmt"
	"math"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/autoscale"
)

// Result is what became of a scenario.
type Result struct {
	Scenario      string        `json:"scenario"`
	About         string        `json:"about"`
	Hours         float64       `json:"simulated_hours"`
	Phases        []PhaseResult `json:"phases"`
	Stall         float64       `json:"stall"` // of the worst session, over all
	Decisions     int           `json:"decisions"`
	PerHour       float64       `json:"decisions_per_hour"`
	Reversals     int           `json:"reversals"` // decisions that took back the one before within ten minutes
	MasterCPU     float64       `json:"master_cpu_seconds_per_hour"`
	MasterMemory  uint64        `json:"master_heap_bytes"`
	Seconds       float64       `json:"seconds"` // that the simulation took, without the search
	Failures      []string      `json:"failures"`
	Events        []Event       `json:"events"`
	history       []point
	phases        []Phase
	phaseOptimums []int
}

// Event is a decision that was news.
type Event struct {
	At     string `json:"at"`
	From   int    `json:"from"`
	To     int    `json:"to"`
	Reason string `json:"reason"`
}

// PhaseResult is what became of a phase.
type PhaseResult struct {
	From      string  `json:"from"`
	To        string  `json:"to"`
	Expect    string  `json:"expect"`
	Fewest    int     `json:"fewest"` // workers, by search
	Workers   float64 `json:"workers"`
	Over      float64 `json:"over"` // Workers over Fewest, less 1
	Stall     float64 `json:"stall"`
	Decisions int     `json:"decisions"` // until the right size
	Seconds   float64 `json:"seconds"`   // until then
	Ready     float64 `json:"ready"`     // until there were as many workers as needed
	Overshoot float64 `json:"overshoot"`
}

const (
	tolerance  = 0.1
	reversal   = 10 * time.Minute
	maxPerHour = 2
	// maxReversals an hour are no flapping: two in a day, since a peak may come just when the fleet had shrunk.
	maxReversals = 0.1
	maxBraked    = 12  // decisions an hour while the bottleneck is elsewhere
	brakedTo     = 1.3 // of the workers before
	brakedPeak   = 1.6
	// greedyUnder and greedyOver the fewest is right where workers are found by doubling.
	greedyUnder, greedyOver = 0.75, 1.5
)

// enough is the most workers that are within 10% of the fewest; a whole one at least.
func enough(fewest int) float64 { return math.Max(float64(fewest)+1, (1+tolerance)*float64(fewest)) }

// judge compares a run with what its scenario wants.
func judge(w *world, fewest []int) Result {
	r := Result{
		Scenario: w.Name, About: w.About, Hours: w.Duration.Hours(), Stall: stall(w.history, 0, w.Duration),
		Decisions: len(w.scaler.decisions), history: w.history, phases: w.Phases, phaseOptimums: fewest,
	}
	r.PerHour = float64(r.Decisions) / r.Hours
	r.MasterCPU = w.master.spent.Seconds() / r.Hours
	r.Reversals = reversals(w.scaler.decisions)
	for _, d := range w.scaler.news {
		r.Events = append(r.Events, Event{At: d.At.Sub(begin).String(), From: d.From, To: d.To, Reason: d.Reason})
	}
	for i, p := range w.Phases {
		one := w.judgePhase(p, max(0, fewest[i]))
		r.Phases = append(r.Phases, one)
		if fewest[i] == noSize {
			r.Failures = append(r.Failures,
				fmt.Sprintf(
					"%s to %s: with %d workers, the most that the scaler may have, trainers wait for more than 1%% of "+
						"their time: %s",
					p.From, p.To, w.Max, w.why(p, w.rec)))
			continue
		}
		for _, why := range w.fails(p, one) {
			r.Failures = append(r.Failures, fmt.Sprintf("%s to %s: %s", p.From, p.To, why))
		}
	}
	if w.NoFlapping {
		if float64(r.Reversals) > maxReversals*r.Hours {
			r.Failures = append(r.Failures, fmt.Sprintf("it flaps: %d decisions took back the one before within %s",
				r.Reversals, reversal))
		}
		if r.PerHour > maxPerHour {
			r.Failures = append(r.Failures, fmt.Sprintf("%.1f decisions an hour are more than %d",
				r.PerHour, maxPerHour))
		}
		if r.Stall >= fewStalls {
			r.Failures = append(r.Failures, fmt.Sprintf("trainers wait %.1f%% of their time", 100*r.Stall))
		}
	}
	return r
}

func reversals(decisions []autoscale.Decision) (n int) {
	for i := 1; i < len(decisions); i++ {
		a, b := decisions[i-1], decisions[i]
		if (a.To > a.From) != (b.To > b.From) && b.At.Sub(a.At) < reversal {
			n++
		}
	}
	return n
}

func (w *world) judgePhase(p Phase, fewest int) PhaseResult {
	settled := p.From + (p.To-p.From)/2
	if p.Expect == steady {
		settled = p.From
	}
	r := PhaseResult{From: p.From.String(), To: p.To.String(), Expect: string(p.Expect), Fewest: fewest}
	r.Workers, _ = wanted(w.history, settled, p.To)
	r.Stall = stall(w.history, settled, p.To)
	if fewest == 0 {
		return r
	}
	r.Over = r.Workers/float64(fewest) - 1
	within := func(n int) bool { return float64(n) <= enough(fewest) && float64(n) >= (1-tolerance)*float64(fewest) }
	in, decided := false, 0
	for _, d := range w.scaler.decisions {
		at := d.At.Sub(begin)
		if at <= p.From {
			in = within(d.To)
			continue
		}
		if at > p.To {
			break
		}
		decided++
		if within(d.To) && !in {
			r.Decisions, r.Seconds = decided, (at - p.From).Seconds()
		}
		in = within(d.To)
		r.Overshoot = max(r.Overshoot, float64(d.To)/float64(fewest)-1)
	}
	for _, h := range w.history {
		if h.At > p.From && float64(h.Workers) >= (1-tolerance)*float64(fewest) {
			r.Ready = (h.At - p.From).Seconds()
			break
		}
	}
	return r
}

// fails lists what a phase should have been and was not.
func (w *world) fails(p Phase, r PhaseResult) (why []string) {
	fail := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	switch p.Expect {
	case sized, steady:
		if r.Workers > enough(r.Fewest) {
			fail("%.1f workers are more than 10%% over the %d that are needed", r.Workers, r.Fewest)
		}
		if r.Stall >= fewStalls {
			fail("trainers wait %.2f%% of their time", 100*r.Stall)
		}
		if p.Expect == sized && r.Decisions > p.Decisions {
			fail("%d decisions were taken to come to the right size", r.Decisions)
		}
	case braked:
		before, _ := wanted(w.history, p.From-time.Minute, p.From)
		_, peak := wanted(w.history, p.From, p.To)
		if r.Workers > brakedTo*before || float64(peak) > brakedPeak*before {
			fail("%.1f workers in the end and %d at most, where %.1f were before and more do not help",
				r.Workers, peak, before)
		}
		if named := w.share(p, func(h point) bool { return h.Bottleneck == pb.Bottleneck_STORAGE }); named < 0.9 {
			fail("storage is named as the bottleneck in %.0f%% of the time only", 100*named)
		}
		decisions := 0
		for _, d := range w.scaler.decisions {
			if at := d.At.Sub(begin); at > p.From && at <= p.To {
				decisions++
			}
		}
		if float64(decisions) > maxBraked*max(1, (p.To-p.From).Hours()) {
			fail("%d decisions, though none can help", decisions)
		}
	case crowded:
		if minWorkers := (1 - tolerance) * float64(r.Fewest); r.Workers > enough(r.Fewest) || r.Workers < minWorkers {
			fail("%.1f workers are wanted, where %d are needed", r.Workers, r.Fewest)
		}
		if r.Decisions > p.Decisions || r.Decisions == 0 {
			fail("%d decisions were taken to come to the right size", r.Decisions)
		}
		if said := w.share(p, func(h point) bool { return h.Missing > 0 }); said < 0.8 {
			fail("that workers are missing is said in %.0f%% of the time only", 100*said)
		}
	case greedy:
		if r.Workers > greedyOver*float64(r.Fewest) || r.Workers < greedyUnder*float64(r.Fewest) {
			fail("%.1f workers, where %d bring most of the rows", r.Workers, r.Fewest)
		}
	case free:
	}
	return why
}

// share is the part of a phase's second half in which something holds.
func (w *world) share(p Phase, holds func(point) bool) float64 {
	all, of := 0.0, 0.0
	for _, h := range w.history {
		if h.At > (p.From+p.To)/2 && h.At <= p.To {
			all++
			if holds(h) {
				of++
			}
		}
	}
	return of / max(1, all)
}
