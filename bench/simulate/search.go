package main

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/master/place"
)

const (
	// fewStalls is the share of their time that trainers may wait.
	fewStalls = 0.01
	// maxOfAll is the part of the rows that trainers could get at most that is nearly all.
	maxOfAll = 0.9
	// warmUp is how long a constant fleet is left alone before its trainers' waiting counts.
	warmUp = time.Minute
	// luck is how many times each number of workers is tried: in minutes, streams meet on workers more or less luckily.
	luck = 3
)

// optima is fewest of each phase; 0 of those that do not ask for it, and noSize of those for which no number does.
// Phases that are alike but for their time are searched once.
func optima(ctx context.Context, sc Scenario, rec *Recorded) ([]int, error) {
	out, known := make([]int, len(sc.Phases)), map[string]int{}
	for i, p := range sc.Phases {
		if p.Expect == braked || p.Expect == free {
			continue
		}
		alike := fmt.Sprintf("%t %+v", p.Expect == greedy, constant(sc, p).Jobs)
		n, ok := known[alike]
		if !ok {
			var err error
			if n, err = fewest(ctx, sc, p, rec); err != nil {
				return nil, fmt.Errorf("%s to %s: %w", p.From, p.To, err)
			}
			known[alike] = n
		}
		out[i] = n
	}
	return out, nil
}

// fewest finds the fewest workers with which the trainers of no session wait for more than 1% of their time, whatever
// their luck, by trying constant fleets; or, of trainers that take all that comes, those with which they take most of
// what they take with all that there may be. It knows nothing of costs and demands.
func fewest(ctx context.Context, sc Scenario, p Phase, rec *Recorded) (int, error) {
	sc = constant(sc, p)
	runs := 1
	if sc.Searched == 0 {
		runs = luck
	}
	try := func(n int) (stalled, rows float64, err error) {
		for i := range runs {
			sc := sc
			sc.Seed += uint64(1000 * i)
			w, err := newWorld(sc, rec, n, false)
			if err != nil {
				return 0, 0, err
			}
			if err := w.run(ctx); err != nil {
				return 0, 0, err
			}
			stalled = max(stalled, stall(w.history, warmUp, sc.Duration))
			rows += rate(w.history, warmUp, sc.Duration) / float64(runs)
			if p.Expect != greedy && stalled >= fewStalls {
				break
			}
		}
		return stalled, rows, nil
	}
	all := 0.0
	if p.Expect == greedy {
		var err error
		if _, all, err = try(sc.Max); err != nil {
			return 0, err
		}
	}
	enough := func(n int) (bool, error) {
		stalled, rows, err := try(n)
		if p.Expect == greedy {
			return rows >= maxOfAll*all, err
		}
		return stalled < fewStalls, err
	}
	maxWorkers := max(1, sc.Max)
	few, many := 0, min(maxWorkers, max(1, sc.Workers))
	for {
		ok, err := enough(many)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if many == maxWorkers {
			return noSize, nil
		}
		few, many = many, min(maxWorkers, many+max(1, many/2))
	}
	for many-few > max(1, many/100) {
		middle := (few + many) / 2
		if few == 0 { // the first guess was enough: look below it before looking everywhere
			middle = max(1, many*3/4)
		}
		ok, err := enough(middle)
		if err != nil {
			return 0, err
		}
		if ok {
			many = middle
		} else {
			few = middle
		}
	}
	return many, nil
}

// noSize is in place of the fewest workers where as many as the scaler may have are too few.
const noSize = -1

// why says what keeps as many workers as there may be from being enough.
func (sc *Scenario) why(p Phase, rec *Recorded) string {
	for _, j := range constant(*sc, p).Jobs {
		load, streams := j.Load*j.Steps[0].Factor, float64(j.Trainers*place.MaxStreams)
		if maxLoad := streams * rec.Workloads[j.Workload].StreamCPUs / sc.CPUs; maxLoad < load {
			return fmt.Sprintf(
				"session %s asks for the work of %.4g workers, and the %d streams that each of its %d trainers may "+
					"have can use that of %.4g; add trainers",
				j.Name, load, place.MaxStreams, j.Trainers, maxLoad)
		}
		if load > float64(sc.Max) {
			return fmt.Sprintf("session %s asks for the work of %.4g; raise --workers", j.Name, load)
		}
		if slots := sc.Max * slotsOf(sc.CPUs); j.Trainers > slots {
			return fmt.Sprintf("%d trainers share the %d streams that these serve at once; raise --workers",
				j.Trainers, slots)
		}
	}
	return "raise --workers, or add trainers"
}

// constant is a phase of a scenario without what changes or fails in it.
func constant(sc Scenario, p Phase) Scenario {
	long := sc.Searched
	if long == 0 {
		long = 5 * time.Minute
	}
	var jobs []Job
	for _, j := range sc.Jobs {
		if j.From > p.From || j.To > 0 && j.To < p.To {
			continue
		}
		factor := 1.0
		for _, s := range j.Steps {
			if s.At <= p.From {
				factor = s.Factor
			}
		}
		j.From, j.To, j.Steps, j.Dies = 0, 0, []Step{{0, factor}}, nil
		jobs = append(jobs, j)
	}
	sc.Jobs, sc.Kills, sc.Storage, sc.Failovers, sc.Silences, sc.Room = jobs, nil, nil, nil, nil, nil
	sc.Duration = warmUp + long
	return sc
}
