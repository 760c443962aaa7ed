package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// target is what Penstock's wire should have of plain TCP's speed, with batches of each of the targetSizes.
const target = 0.85

var targetSizes = []int{256 << 10, 1 << 20} //nolint:gochecknoglobals // never changed

// line is a kind and a size: medians of all rounds.
type line struct {
	Bytes int     `json:"batch_bytes"`
	Kind  string  `json:"kind"`
	Speed float64 `json:"gb_per_second"`
	OfTCP float64 `json:"of_tcp"` // speed
	// OfTuned is the same of tuned TCP's; 0 if that was not measured.
	OfTuned float64 `json:"of_tuned_tcp,omitempty"`
	Server  float64 `json:"server_cpu_seconds_per_gb"`
	Client  float64 `json:"client_cpu_seconds_per_gb"`
	CPU     float64 `json:"cpu_of_tcp"` // CPU time of both
}

type report []line

// summary takes ratios within a round, so that what else the machine does matters little.
func summary(size int, kind string, got, tcp, tuned []speeds) line {
	median := func(f func(i int) float64) float64 {
		var v []float64
		for i := range got {
			v = append(v, f(i))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	l := line{
		Bytes: size, Kind: kind,
		Speed:  median(func(i int) float64 { return got[i].speed }),
		OfTCP:  median(func(i int) float64 { return got[i].speed / tcp[i].speed }),
		Server: median(func(i int) float64 { return got[i].server }),
		Client: median(func(i int) float64 { return got[i].client }),
		CPU:    median(func(i int) float64 { return (got[i].server + got[i].client) / (tcp[i].server + tcp[i].client) }),
	}
	if len(tuned) > 0 {
		l.OfTuned = median(func(i int) float64 { return got[i].speed / tuned[i].speed })
	}
	return l
}

func (l line) ofTuned() string {
	if l.OfTuned == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*l.OfTuned)
}

func (l line) cells() []string {
	return []string{
		fmt.Sprintf("%d KiB", l.Bytes>>10), l.Kind, fmt.Sprintf("%.2f", l.Speed), fmt.Sprintf("%.0f%%", 100*l.OfTCP), l.ofTuned(),
		fmt.Sprintf("%.2f", l.Server), fmt.Sprintf("%.2f", l.Client), fmt.Sprintf("%.2f", l.CPU),
	}
}

func (report) columns() []string {
	return []string{"batch", "kind", "GB/s", "of TCP", "of tuned TCP", "server, CPU s/GB", "client, CPU s/GB", "CPU to TCP's"}
}

func (r report) print(out io.Writer) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(r.columns(), "\t"))
	for _, l := range r {
		fmt.Fprintln(tw, strings.Join(l.cells(), "\t"))
	}
	return tw.Flush()
}

func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The wire beside stock Flight and plain TCP\n\n`go run ./bench/wire` on %d CPUs (%s/%s, %s). One stream over loopback, "+
		"a process at each end. Medians; ratios are within a round. The reader of `tcp-tuned` sleeps until a batch, or 1 MiB of it, has come, as Penstock's does.\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(r.columns(), " | "), strings.Repeat("---|", len(r.columns())))
	for _, l := range r {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(l.cells(), " | "))
	}
	return b.String()
}

// check says what Penstock's wire has of TCP's speed where there is a target. It is an error to miss one, or not to know.
func (r report) check() (verdict string, err error) {
	var said []string
	var errs []error
	for _, size := range targetSizes {
		at := slices.IndexFunc(r, func(l line) bool { return l.Kind == penstock && l.Bytes == size })
		if at < 0 {
			errs = append(errs, fmt.Errorf("%s was not measured with batches of %d KiB, which there is a target for", penstock, size>>10))
			continue
		}
		l := r[at]
		found := fmt.Sprintf("batches of %d KiB have %.1f%% of plain TCP's speed (tuned: %s)", size>>10, 100*l.OfTCP, l.ofTuned())
		said = append(said, found)
		if l.OfTCP < target {
			errs = append(errs, fmt.Errorf("%s; the target is %.0f%% of plain TCP's", found, 100*target))
		}
	}
	return strings.Join(said, "; "), errors.Join(errs...)
}
