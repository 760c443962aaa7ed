package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// fewStalls is the share of their time that trainers may wait.
	fewStalls = 0.01
	// warmUp is how long a constant fleet is left alone before its trainers' waiting counts.
	warmUp = time.Minute
)

// optima is fewest of each phase, 0 of those that do not ask for it. Phases that are alike but for their time are searched once.
func optima(ctx context.Context, sc Scenario, rec *Recorded) ([]int, error) {
	out, known := make([]int, len(sc.Phases)), map[string]int{}
	for i, p := range sc.Phases {
		if p.Expect != sized && p.Expect != steady {
			continue
		}
		alike := fmt.Sprintf("%+v", constant(sc, p).Jobs)
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

// fewest finds the fewest workers with which the trainers of no session wait for more than 1% of their time, by trying constant
// fleets. It knows nothing of costs and demands.
func fewest(ctx context.Context, sc Scenario, p Phase, rec *Recorded) (int, error) {
	sc = constant(sc, p)
	enough := func(n int) (bool, error) {
		w, err := newWorld(sc, rec, n, false)
		if err != nil {
			return false, err
		}
		if err := w.run(ctx); err != nil {
			return false, err
		}
		return stall(w.history, warmUp, sc.Duration) < fewStalls, nil
	}
	most := max(1, sc.Max)
	few, many := 0, min(most, max(1, sc.Workers))
	for {
		ok, err := enough(many)
		if err != nil {
			return 0, err
		}
		if ok {
			break
		}
		if many == most {
			return 0, errNoSize
		}
		few, many = many, min(most, many+max(1, many/2))
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

var errNoSize = errors.New("as many workers as the scaler may have leave trainers waiting for more than 1% of their time; raise --workers, or add trainers")

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
	sc.Jobs, sc.Kills, sc.Storage, sc.Failovers, sc.Silences = jobs, nil, nil, nil, nil
	sc.Duration = warmUp + long
	return sc
}
