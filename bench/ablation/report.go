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
	// Columns of the files, how many of them are read, and the bytes that these have.
	Columns int   `json:"columns"`
	Read    int   `json:"columns_read"`
	Needed  int64 `json:"bytes_needed"`
	// Rows of a window that fits the cache, and of a row group.
	WindowRows int   `json:"window_rows"`
	GroupRows  int64 `json:"group_rows"`
	// Latency of an object store's requests, and bytes a second of a connection to it.
	Latency    float64    `json:"latency_seconds"`
	Bandwidth  int64      `json:"bandwidth"`
	Rounds     int        `json:"rounds"`
	Variants   []result   `json:"variants"`
	Rebatching rebatching `json:"rebatching"`
}

// result has the medians of some passes.
type result struct {
	Name   string `json:"name"`
	Passes int    `json:"passes"`
	usage
}

// median takes the median of each field.
func median(all []usage) usage {
	return usage{
		Wall:     middle(all, func(u usage) float64 { return u.Wall }),
		CPU:      middle(all, func(u usage) float64 { return u.CPU }),
		Requests: middle(all, func(u usage) int64 { return u.Requests }),
		Bytes:    middle(all, func(u usage) int64 { return u.Bytes }),
		Service:  middle(all, func(u usage) float64 { return u.Service }),
		Wait:     middle(all, func(u usage) float64 { return u.Wait }),
	}
}

func middle[T int64 | float64](all []usage, of func(usage) T) T {
	values := make([]T, len(all))
	for i, u := range all {
		values[i] = of(u)
	}
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

func (r *report) write(dir string) error {
	return figures.Write(dir, "ablation", r.markdown(), r)
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What each optimisation is worth\n\n`go run ./bench/ablation --workload %s --rows %d` on %d CPUs (%s/%s, %s): %d of %d columns are read. "+
		"Windows have %d rows, row groups %d. All variants make the same tensors.\n\n", r.Workload, r.Rows, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		r.Read, r.Columns, min(int64(r.WindowRows), r.GroupRows), r.GroupRows)
	fmt.Fprintf(&b, "Medians of all passes of %d rounds, each of which warms a variant up by a pass of its own, and begins with another one. Files are in the page cache: "+
		"`rows/s` and CPU seconds (`CPU`: relative to all optimisations together) have no wait for storage in them. `service` is what an object store would take for the "+
		"requests, one after the other, if it answers in %.3g ms and sends %.0f MB/s by a connection, `wait` with %d at a time and one row group after the other. `needed` are the "+
		"bytes of the columns that are read.\n\n", r.Rounds, 1e3*r.Latency, float64(r.Bandwidth)/1e6, parallel)
	b.WriteString("| optimisations | passes | rows/s | CPU s | CPU | requests | needed MB | read MB | service s | wait s |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, v := range r.Variants {
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.2f | %.2f | %d | %.1f | %.1f | %.2f | %.2f |\n", v.Name, v.Passes, float64(r.Rows)/v.Wall, v.CPU, v.CPU/r.Variants[0].CPU,
			v.Requests, float64(r.Needed)/1e6, float64(v.Bytes)/1e6, v.Service, v.Wait)
	}
	b.WriteString("\nFusion by column: a column of a window goes through all of its ops, in memory that they take turns in, before the next column does. Without it each op " +
		"goes over all columns, to arrays of its own. No op is one loop with another in either.\n")
	r.Rebatching.markdown(&b)
	return b.String()
}

func (x *rebatching) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## Who joins rows to the trainer's batches\n\nA worker's pipeline with %d MiB of memory, over a storage whose requests do take the time that is said above, and a "+
		"trainer in the same process, with no network between them. %d streams are asked for at once, and read %d rows, some of them more than once. The trainer wants %d rows a batch, which are %.1f MiB. Where it joins them it copies all rows, to memory that it uses "+
		"again; where the worker does, whose windows are then as long as the batches, it takes them as they lie. CPU seconds are those of both.\n\n",
		x.Memory>>20, streams, x.Rows, x.Batch, float64(x.BatchBytes)/(1<<20))
	b.WriteString("| joined by | passes | rows/s | CPU s | requests | read MB | service s |\n|---|---|---|---|---|---|---|\n")
	for _, f := range x.Forms {
		fmt.Fprintf(b, "| %s | %d | %.0f | %.2f | %d | %.1f | %.2f |\n", f.Name, f.Passes, float64(x.Rows)/f.Wall, f.CPU, f.Requests, float64(f.Bytes)/1e6, f.Service)
	}
}
