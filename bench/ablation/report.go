package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/bench/figures"
)

// report is what is written.
type report struct {
	Workload string `json:"workload"`
	Rows     int    `json:"rows"`
	// Columns of the files, and how many of them are read.
	Columns    int        `json:"columns"`
	Read       int        `json:"columns_read"`
	Variants   []result   `json:"variants"`
	Rebatching rebatching `json:"rebatching"`
}

type result struct {
	Name string `json:"name"`
	usage
}

// median is the usage of the middle one by CPU time, or by time if that was not measured.
func median(all []usage) usage {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b usage) int {
		switch {
		case a.CPU+a.Wall < b.CPU+b.Wall:
			return -1
		case a.CPU+a.Wall > b.CPU+b.Wall:
			return 1
		}
		return 0
	})
	return sorted[(len(sorted)-1)/2]
}

func (r *report) write(dir string) error {
	return figures.Write(dir, "ablation", r.markdown(), r)
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What each optimisation is worth\n\n`go run ./bench/ablation --workload %s --rows %d` on %d CPUs (%s/%s, %s): %d of %d columns are read. "+
		"Medians; `CPU` is relative to all optimisations together.\n\n", r.Workload, r.Rows, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), r.Read, r.Columns)
	b.WriteString("| optimisations | rows/s | CPU s | CPU | storage MB | requests | service s |\n|---|---|---|---|---|---|---|\n")
	for _, v := range r.Variants {
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.2f | %.1f | %d | %.2f |\n", v.Name, float64(r.Rows)/v.Wall, v.CPU, v.CPU/r.Variants[0].CPU,
			float64(v.Bytes)/1e6, v.Requests, v.Service)
	}
	x := r.Rebatching
	fmt.Fprintf(&b, "\n## Who joins rows to the trainer's batches\n\nA worker with %d MiB of memory, over a storage whose requests take %.0f ms: %.0f rows/s where the "+
		"trainer joins them, %.0f rows/s where the worker does: %+.0f%%.\n", x.Memory>>20, 1e3*x.Latency, x.Client, x.Worker, 100*(x.Client/x.Worker-1))
	return b.String()
}
