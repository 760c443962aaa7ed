// Stages measures where the CPU time of a row goes, from the files to the trainer's batches, for each workload.
//
//	go run ./bench/stages
//
// A fleet of real processes (bench/cluster), one master and one worker, serves sessions to a trainer in this process, by network as to
// other machines. Behind a first session, in which each process takes what it takes once, all three are profiled while sessions follow
// each other. A process's CPU time, as the OS counts it, is divided among stages as the samples of its profile are (profile.go).
// fleet.go measures, report.go writes Markdown and JSON.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/workload"
	"github.com/penstock-ml/penstock/internal/cli"
)

func main() {
	os.Exit(cli.Main(command()))
}

// options are the program's flags.
type options struct {
	out, data string
	only      []string
	seconds   int
	scale     float64
}

// most is how many seconds a profile may take: the HTTP ports end answers after two minutes.
const most = 100

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "stages",
		Short: "Measure where the CPU time of a row goes",
		Example: "  go run ./bench/stages\n" +
			"  go run ./bench/stages --only rm2 --seconds 60\n" +
			"  go run ./bench/stages --scale 0.01 --out /tmp/stages",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", filepath.Join("bench", "results"), "folder that takes stages.md and stages.json")
	flags.StringVar(&o.data, "data", "penstock-data", "folder that keeps the datasets")
	flags.StringSliceVar(&o.only, "only", nil, "workloads to measure (default: all)")
	flags.IntVar(&o.seconds, "seconds", 20, "how long each workload is profiled")
	flags.Float64Var(&o.scale, "scale", 0.25, "part of each dataset's rows to make and to read")
	return cmd
}

func (o *options) workloads() ([]workload.Workload, error) {
	all := workload.All()
	if len(o.only) > 0 {
		all = nil
	}
	var errs []error
	for _, name := range o.only {
		w, err := workload.Named(name)
		all, errs = append(all, w), append(errs, err)
	}
	if o.seconds < 1 || o.seconds > most {
		errs = append(errs, fmt.Errorf("--seconds: want 1 to %d, found %d", most, o.seconds))
	}
	if o.scale <= 0 || o.scale > 10 {
		errs = append(errs, fmt.Errorf("--scale: want more than 0 and at most 10, found %g", o.scale))
	}
	for i := range all {
		all[i].Rows = max(1, int(o.scale*float64(all[i].Rows)))
	}
	return all, errors.Join(errs...)
}

func (o *options) run(ctx context.Context, progress io.Writer) error {
	workloads, err := o.workloads()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "penstock-stages-*")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	m := &meter{dir: dir, data: o.data, seconds: o.seconds}
	if m.binary, err = cluster.Build(ctx, dir); err != nil {
		return err
	}
	r := report{CopyRate: copyRate()}
	for _, w := range workloads {
		fmt.Fprintf(progress, "%s: %d rows\n", w.Name, w.Rows)
		found, err := m.measure(ctx, w)
		if err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
		fmt.Fprintf(progress, "  %.3g CPU seconds a million rows, of %d samples\n", found.perMillion(found.all()), found.Samples)
		r.Workloads = append(r.Workloads, found)
	}
	return r.write(o.out)
}
