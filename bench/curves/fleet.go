package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/figures"
)

// meter measures points.
type meter struct{ binary, dir, data string }

// measure takes the medians of a curve's points.
func (m *meter) measure(ctx context.Context, c *curve, rounds int, progress io.Writer) error {
	all := make([][]cost, len(c.Points))
	for round := range rounds {
		for i := range c.Points {
			p := &c.Points[i]
			one, err := m.point(ctx, p)
			if err != nil {
				return fmt.Errorf("%s %d: %w", c.X, p.X, err)
			}
			all[i] = append(all[i], one)
			fmt.Fprintf(progress, "  round %d, %s %d: %.2f s of workers, %.2f s of the master (%.2f s in the first session), %.2f s of the trainer, in %.2f s\n",
				round+1, c.X, p.X, one.Workers, one.Master, one.First, one.Trainer, one.Wall)
		}
	}
	for i := range c.Points {
		c.Points[i].Cost = medians(all[i], 1e9/float64(c.Points[i].Units))
	}
	return nil
}

// medians returns the median of each field, times a factor.
func medians(all []cost, factor float64) cost {
	of := func(field func(cost) float64) float64 {
		values := make([]float64, len(all))
		for i, c := range all {
			values[i] = field(c)
		}
		slices.Sort(values)
		return factor * (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	return cost{
		Workers: of(func(c cost) float64 { return c.Workers }), Master: of(func(c cost) float64 { return c.Master }),
		First:   of(func(c cost) float64 { return c.First }),
		Trainer: of(func(c cost) float64 { return c.Trainer }), Wall: of(func(c cost) float64 { return c.Wall }),
	}
}

// point has a fleet of its own serve two sessions, and returns what the second one cost, in seconds: in the first one
// each process takes what it takes once, such as fresh memory. It is also when the master and the workers read all footers, which
// they keep; so what it cost the master is returned, too.
func (m *meter) point(ctx context.Context, p *point) (used cost, err error) {
	files, err := p.Workload.Make(ctx, m.data, nil)
	if err != nil {
		return cost{}, err
	}
	dir, err := os.MkdirTemp(m.dir, "fleet-*")
	if err != nil {
		return cost{}, fmt.Errorf("make a temporary directory: %w", err)
	}
	// A window of 10,000 features takes a little more than a worker has by default.
	c, err := cluster.Start(ctx, cluster.Config{Binary: m.binary, Dir: dir, WorkerFlags: []string{"--memory=512MiB"}}, p.Workers)
	if err != nil {
		return cost{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var before, after cost
	for _, session := range []string{"first", "counted"} {
		used.First = after.Master - before.Master
		if before, err = spent(c); err != nil {
			return cost{}, err
		}
		stats, err := c.Read(ctx, session, p.Workload.SpecOf(files))
		if err != nil {
			return cost{}, err
		}
		if stats.Rows != int64(p.Workload.Rows) {
			return cost{}, fmt.Errorf("session %s had %d rows, the dataset has %d", session, stats.Rows, p.Workload.Rows)
		}
		if after, err = spent(c); err != nil {
			return cost{}, err
		}
	}
	used.Workers, used.Master = after.Workers-before.Workers, after.Master-before.Master
	used.Trainer, used.Wall = after.Trainer-before.Trainer, after.Wall-before.Wall
	return used, nil
}

// spent is the CPU time of the fleet's processes and of this one so far, in seconds, and the time of day.
func spent(c *cluster.Cluster) (cost, error) {
	out := cost{Wall: float64(time.Now().UnixNano()) / 1e9, Trainer: figures.CPUSeconds()}
	var err error
	if out.Master, err = figures.CPUSecondsOf(c.MasterProcess().PID()); err != nil {
		return out, err
	}
	for _, w := range c.Workers() {
		seconds, err := figures.CPUSecondsOf(w.PID())
		if err != nil {
			return out, err
		}
		out.Workers += seconds
	}
	return out, nil
}
