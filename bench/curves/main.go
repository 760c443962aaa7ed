// Curves measures how what a row costs changes as things grow: the number of workers, of features, of rows in a row
// group, and of shards.
//
//	go run ./bench/curves
//
// Each point is the second session over the same files that a fleet of real processes (bench/cluster) serves to one trainer in this
// process, from the first call to the last row; the cost is the CPU time of workers, master and trainer, as the OS counts it. What the
// first session cost the master, which had no footers then, is told beside. Points are
// measured in rounds, one after the other in each, and a point's median counts. fleet.go measures a point, curves.go
// lists them, report.go writes Markdown, JSON and charts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/internal/cli"
)

func main() {
	os.Exit(cli.Main(command()))
}

// options are the program's flags.
type options struct {
	out, data string
	only      []string
	rounds    int
	scale     float64
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "curves",
		Short: "Measure what a row costs as workers, features, row groups and shards grow",
		Example: "  go run ./bench/curves\n" +
			"  go run ./bench/curves --only workers --rounds 9\n" +
			"  go run ./bench/curves --scale 0.1 --out /tmp/curves",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", filepath.Join("bench", "results"), "folder that takes curves.md, curves.json and curves.png")
	flags.StringVar(&o.data, "data", "penstock-data", "folder that keeps the datasets")
	flags.StringSliceVar(&o.only, "only", nil, "curves to measure: "+strings.Join(curveNames(), ", ")+" (default: all)")
	flags.IntVar(&o.rounds, "rounds", 5, "times that each point is measured")
	flags.Float64Var(&o.scale, "scale", 1, "part of each dataset's rows to make and to read")
	return cmd
}

func (o *options) check() error {
	var errs []error
	if o.rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: want 1 or more, found %d", o.rounds))
	}
	if o.scale <= 0 || o.scale > 100 {
		errs = append(errs, fmt.Errorf("--scale: want more than 0 and at most 100, found %g", o.scale))
	}
	for _, name := range o.only {
		if !slices.Contains(curveNames(), name) {
			errs = append(errs, fmt.Errorf("--only: there is no curve %q; there are %s", name, strings.Join(curveNames(), ", ")))
		}
	}
	return errors.Join(errs...)
}

func (o *options) run(ctx context.Context, progress io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "penstock-curves-*")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	binary, err := cluster.Build(ctx, dir)
	if err != nil {
		return err
	}
	m := &meter{binary: binary, dir: dir, data: o.data}
	var measured []curve
	for _, c := range curves(o.scale) {
		if len(o.only) > 0 && !slices.Contains(o.only, c.Name) {
			continue
		}
		fmt.Fprintf(progress, "%s\n", c.Name)
		if err := m.measure(ctx, &c, o.rounds, progress); err != nil {
			return fmt.Errorf("curve %s: %w", c.Name, err)
		}
		measured = append(measured, c)
	}
	return write(o.out, measured)
}
