package main

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/penstock-ml/penstock/bench/figures"
)

// report is what is written.
type report struct {
	// CopyRate is nanoseconds a byte, of a copy beyond the caches.
	CopyRate  float64  `json:"copy_ns_per_byte"`
	Workloads []result `json:"workloads"`
}

// result is a workload's.
type result struct {
	Workload string `json:"workload"`
	Rows     int64  `json:"rows"`
	// Bytes of the trainer's batches.
	Bytes   int64 `json:"bytes"`
	Samples int64 `json:"samples"`
	// Processes and Stages have CPU seconds; Hottest has shares of all of them.
	Processes map[string]float64 `json:"processes"`
	Stages    map[stage]float64  `json:"stages"`
	Hottest   []hot              `json:"hottest"`

	functions map[string]float64 // CPU seconds
}

// hot is a function and the CPU time that it takes itself.
type hot struct {
	Function string  `json:"function"`
	Share    float64 `json:"share"`
}

func newResult(workload string) result {
	return result{Workload: workload, Processes: map[string]float64{}, Stages: map[stage]float64{}, functions: map[string]float64{}}
}

// add divides a process's CPU seconds as its profile's samples are. Those of a process without samples are control.
func (r *result) add(process string, seconds float64, p *profile.Profile) {
	parts, functions, samples := divide(p)
	r.Processes[process] = seconds
	r.Samples += samples
	if samples == 0 {
		parts = map[stage]float64{control: 1}
	}
	for s, share := range parts {
		if s == send && process == "trainer" {
			s = receive
		}
		r.Stages[s] += share * seconds
	}
	for name, share := range functions {
		r.functions[name] += share * seconds
	}
}

// hottest returns the n functions that take most.
func (r *result) hottest(n int) []hot {
	list := make([]hot, 0, len(r.functions))
	for _, name := range slices.Sorted(maps.Keys(r.functions)) {
		list = append(list, hot{name, r.functions[name] / r.all()})
	}
	slices.SortStableFunc(list, func(a, b hot) int { return cmp.Compare(b.Share, a.Share) })
	return list[:min(n, len(list))]
}

// all is the CPU seconds of all processes.
func (r *result) all() (seconds float64) {
	for _, s := range r.Processes {
		seconds += s
	}
	return seconds
}

// perMillion is CPU seconds for a million rows.
func (r *result) perMillion(seconds float64) float64 { return seconds * 1e6 / float64(r.Rows) }

func (r *report) write(dir string) error { return figures.Write(dir, "stages", r.markdown(), r) }

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Where the time goes\n\n`go run ./bench/stages` on %d CPUs (%s/%s, %s). CPU seconds for a million rows, of all processes, and the share of it; "+
		"one worker, whose batches go by network to a trainer with the Go client. Time is divided among stages as samples of CPU profiles are.\n\n",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	line := func(name string, cell func(*result) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for i := range r.Workloads {
			fmt.Fprintf(&b, " %s |", cell(&r.Workloads[i]))
		}
		b.WriteString("\n")
	}
	part := func(seconds func(*result) float64) func(*result) string {
		return func(w *result) string {
			s := seconds(w)
			return fmt.Sprintf("%.2g, %.0f%%", w.perMillion(s), 100*s/w.all())
		}
	}
	line("", func(w *result) string { return w.Workload })
	b.WriteString("| --- |" + strings.Repeat(" --- |", len(r.Workloads)) + "\n")
	for _, s := range stages() {
		line(fmt.Sprintf("**%s**: %s", s.stage, s.is), part(func(w *result) float64 { return w.Stages[s.stage] }))
	}
	line("**all**", func(w *result) string { return fmt.Sprintf("**%.3g**", w.perMillion(w.all())) })
	for _, p := range []string{"worker-1", "trainer", "master-1"} {
		line("of it, "+p, part(func(w *result) float64 { return w.Processes[p] }))
	}
	line("one copy of the trainer's batches, beyond the caches", part(func(w *result) float64 { return float64(w.Bytes) * r.CopyRate / 1e9 }))
	line("rows, samples", func(w *result) string { return fmt.Sprintf("%d, %d", w.Rows, w.Samples) })
	for _, w := range r.Workloads {
		fmt.Fprintf(&b, "\n## %s\n\nWhat takes most by itself:\n\n| function | share |\n| --- | --- |\n", w.Workload)
		for _, h := range w.Hottest {
			fmt.Fprintf(&b, "| `%s` | %.1f%% |\n", h.Function, 100*h.Share)
		}
	}
	return b.String()
}
