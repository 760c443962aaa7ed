package main

import (
	"fmt"
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
		fmt.Fprintf(&b, "  %s to %s, %s: %.1f workers, fewest %d (%+.0f%%), stall %.2f%%, %d decisions, size after %.0fs, there after %.0fs, overshoot %.0f%%\n",
			p.From, p.To, p.Expect, p.Workers, p.Fewest, 100*p.Over, 100*p.Stall, p.Decisions, p.Seconds, p.Ready, 100*p.Overshoot)
	}
	fmt.Fprintf(&b, "  %d decisions (%.2f an hour, %d reversals), stall %.2f%%; master: %.1f CPU s an hour, %.1f MB; simulated in %.1fs\n",
		r.Decisions, r.PerHour, r.Reversals, 100*r.Stall, r.MasterCPU, float64(r.MasterMemory)/1e6, r.Seconds)
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "  MISSED: %s\n", f)
	}
	return b.String()
}

func write(dir string, results []Result, rec *Recorded) error {
	return figures.Write(dir, "simulate", markdown(results, rec), results)
}

func markdown(results []Result, rec *Recorded) string { return "" }
