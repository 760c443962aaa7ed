package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/figures"
	"github.com/penstock-ml/penstock/bench/workload"
)

// recorder measures what a worker's model is made of, on real fleets of one worker.
type recorder struct {
	binary, dir, data string
	rounds            int
	progress          io.Writer
}

const how = "`go run ./bench/simulate record`: for each workload of bench/workload, a fleet of one worker process " +
	"serves all rows to a Go trainer on the same machine, " +
	"round after round; medians. CPU seconds are the worker's, by /proc. stream_cpus is CPU seconds over wall " +
	"seconds of a worker that serves one stream at a time (--slots 1), " +
	"at least 1: on a busy machine it is a bound from below."

// record writes what it measured into a file.
func record(ctx context.Context, file, data string, rounds int, progress io.Writer) error {
	dir, err := os.MkdirTemp("", "penstock-simulate-*")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	r := &recorder{dir: dir, data: data, rounds: rounds, progress: progress}
	if r.binary, err = cluster.Build(ctx, dir); err != nil {
		return err
	}
	rec := &Recorded{
		How: how, Machine: fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
			runtime.Version()),
		ShardBytes: 64 << 20, BudgetBytes: 256 << 20, Workloads: map[string]Workload{},
	}
	var starts []float64
	for _, name := range []string{"rm1", "rm2", "rm5", "jpeg"} {
		w, err := workload.Named(name)
		if err != nil {
			return err
		}
		took, started, err := r.workload(ctx, w)
		if err != nil {
			return fmt.Errorf("workload %s: %w", name, err)
		}
		rec.Workloads[name] = took
		starts = append(starts, started...)
	}
	slices.Sort(starts)
	rec.StartUp = starts[len(starts)/2]
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return fmt.Errorf("write what was recorded: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write what was recorded: %w", err)
	}
	return nil
}

func (r *recorder) workload(ctx context.Context, w workload.Workload) (out Workload, starts []float64, err error) {
	files, err := w.Make(ctx, r.data, nil)
	if err != nil {
		return out, nil, err
	}
	out.Batch = w.BatchSize
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return out, nil, fmt.Errorf("look at the dataset: %w", err)
		}
		out.Stored += float64(info.Size()) / float64(w.Rows)
	}
	var cpus, streams []float64
	for range r.rounds {
		for _, slots := range []int{0, 1} {
			m, err := r.measure(ctx, w, files, slots)
			if err != nil {
				return out, nil, err
			}
			fmt.Fprintf(r.progress, "%s, %d slots: %.3g s of CPU in %.3g s, started in %.2g s\n",
				w.Name, slots, m.cpu, m.wall, m.start)
			starts = append(starts, m.start)
			if slots == 1 {
				streams = append(streams, m.cpu/m.wall)
				continue
			}
			cpus = append(cpus, m.cpu/float64(w.Rows))
			out.Tensors = float64(m.bytes) / float64(w.Rows)
		}
	}
	slices.Sort(cpus)
	slices.Sort(streams)
	out.CPU, out.Spread = cpus[len(cpus)/2], cpus[len(cpus)-1]/cpus[0]
	out.StreamCPUs = max(1, streams[len(streams)/2])
	return out, starts, nil
}

// measurement is one reading of a workload.
type measurement struct {
	cpu, wall, start float64
	bytes            int64
}

func (r *recorder) measure(
	ctx context.Context, w workload.Workload, files []string, slots int,
) (m measurement, err error) {
	dir, err := os.MkdirTemp(r.dir, "fleet-*")
	if err != nil {
		return m, fmt.Errorf("make a temporary directory: %w", err)
	}
	cfg := cluster.Config{Binary: r.binary, Dir: dir, WorkerFlags: []string{fmt.Sprintf("--slots=%d", slots)}}
	c, err := cluster.Start(ctx, cfg, 0)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	start := time.Now()
	worker, err := c.StartWorker(ctx)
	if err != nil {
		return m, err
	}
	m.start = time.Since(start).Seconds()
	before, err := figures.CPUSecondsOf(worker.PID())
	if err != nil {
		return m, err
	}
	start = time.Now()
	stats, err := c.Read(ctx, "record", w.SpecOf(files))
	if err != nil {
		return m, err
	}
	m.wall, m.bytes = time.Since(start).Seconds(), stats.Bytes
	after, err := figures.CPUSecondsOf(worker.PID())
	m.cpu = after - before
	return m, err
}
