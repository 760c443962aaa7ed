package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/bench/figures"
)

// text is a result for the terminal.
func (r *Result) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (%.3g h)\n", r.Scenario, r.About, r.Hours)
	for _, e := range r.Events[max(0, len(r.Events)-20):] {
		fmt.Fprintf(&b, "  %-9s %s\n", e.At, e.Reason)
	}
	for _, p := range r.Phases {
		fmt.Fprintf(&b,
			"  %s to %s, %s: %.1f workers, fewest %d (%+.0f%%), stall %.2f%%, %d decisions, size after %.0fs, there "+
				"after %.0fs, overshoot %.0f%%\n",
			p.From, p.To, p.Expect, p.Workers, p.Fewest, 100*p.Over, 100*p.Stall, p.Decisions, p.Seconds, p.Ready,
			100*p.Overshoot)
	}
	fmt.Fprintf(&b,
		"  %d decisions (%.2f an hour, %d reversals), stall %.2f%%; master: %.1f CPU s an hour, %.1f MB; simulated "+
			"in %.1fs\n",
		r.Decisions, r.PerHour, r.Reversals, 100*r.Stall, r.MasterCPU, float64(r.MasterMemory)/1e6, r.Seconds)
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "  MISSED: %s\n", f)
	}
	return b.String()
}

// write writes simulate.md, simulate.json and a plot for each scenario.
func write(dir string, results []Result, rec *Recorded) error {
	if err := figures.Write(dir, "simulate", markdown(results, rec), results); err != nil {
		return err
	}
	for i := range results {
		if err := plotResult(filepath.Join(dir, "simulate-"+results[i].Scenario+".png"), &results[i]); err != nil {
			return err
		}
	}
	return nil
}

func markdown(results []Result, rec *Recorded) string {
	var b strings.Builder
	names := make([]string, len(results))
	for i, r := range results {
		names[i] = r.Scenario
	}
	fmt.Fprintf(&b,
		"# The scaler in virtual time\n\n`go run ./bench/simulate`, scenarios %s. Workers as recorded on %s.\n\n",
		strings.Join(names, ", "), rec.Machine)
	b.WriteString(
		"`fewest` is the fewest workers that keep the stall under 1%, found by trying constant fleets (three times " +
			"each, but once in `huge` and `noise`); `workers` are those that the scaler kept in the second half\n" +
			"of the phase (steady: in all of it); `decisions` and `after` are until it came to within 10% of the " +
			"fewest, `there` until so many worked. The stall is of the worst session.\n\n")
	b.WriteString(
		"| scenario | phase | expected | workers | fewest | over | stall | decisions | after | there | overshoot " +
			"|\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		for _, p := range r.Phases {
			fmt.Fprintf(&b, "| %s | %s to %s | %s | %.1f | ", r.Scenario, p.From, p.To, p.Expect, p.Workers)
			if p.Fewest == 0 {
				fmt.Fprintf(&b, "| | %.2f%% | | | | |\n", 100*p.Stall)
				continue
			}
			fmt.Fprintf(&b, "%d | %+.0f%% | %.2f%% | %d | %.0f s | %.0f s | %.0f%% |\n",
				p.Fewest, 100*p.Over, 100*p.Stall, p.Decisions, p.Seconds, p.Ready, 100*p.Overshoot)
		}
	}
	b.WriteString(
		"\n| scenario | hours | stall | decisions an hour | taken back within 10 min | master, CPU s an hour | " +
			"master, heap MB | simulated in | targets |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		verdict := "hold"
		if len(r.Failures) > 0 {
			verdict = "missed: " + strings.Join(r.Failures, "; ")
		}
		fmt.Fprintf(&b, "| [%s](simulate-%s.png) | %.3g | %.2f%% | %.2f | %d | %.2f | %.1f | %.1f s | %s |\n",
			r.Scenario, r.Scenario, r.Hours,
			100*r.Stall, r.PerHour, r.Reversals, r.MasterCPU, float64(r.MasterMemory)/1e6, r.Seconds, verdict)
	}
	for _, r := range results {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", r.Scenario, r.About)
		for _, e := range r.Events[:min(len(r.Events), 15)] {
			fmt.Fprintf(&b, "- %s: %s.\n", e.At, e.Reason)
		}
	}
	return b.String()
}
