// Ablation measures what each of the worker's optimisations is worth: with all of them, with one left out, with one alone, and with
// none.
//
//	go run ./bench/ablation
//
// The path is that of a worker and its trainer in one process (path.go): storage, decoding, transforms, tensors, a Flight stream over
// loopback, one copy at the trainer. Each optimisation (variants.go) has a simple way of doing without it: all columns are
// read, every chunk by a request of its own, by arrow's Parquet reader (arrow.go), rows are maps (rows.go), a row group is
// transformed at once, and arrow's Flight sends it. That trainers, not workers, join rows to batches (rebatch.go) is
// measured apart, on the worker's own pipeline with a fixed memory budget and a storage whose requests take their time.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
)

func main() {
	os.Exit(cli.Main(command()))
}

// options are the program's flags.
type options struct {
	out, data, workload string
	rows, rounds        int
	latency             time.Duration
	budget              int64
}

func command() *cobra.Command {
	o := options{budget: 256 << 20}
	cmd := &cobra.Command{
		Use:   "ablation",
		Short: "Measure what each of the worker's optimisations is worth",
		Example: "  go run ./bench/ablation\n" +
			"  go run ./bench/ablation --workload rm2 --rows 65536 --rounds 5",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", filepath.Join("bench", "results"), "folder that takes ablation.md and ablation.json")
	flags.StringVar(&o.data, "data", "penstock-data", "folder that keeps the datasets")
	flags.StringVar(&o.workload, "workload", "rm1", "workload whose features are read, out of a file that has four times as many")
	flags.IntVar(&o.rows, "rows", 1<<18, "rows to read")
	flags.IntVar(&o.rounds, "rounds", 3, "times that each variant is measured; the median counts")
	flags.DurationVar(&o.latency, "latency", 10*time.Millisecond, "what a request to the storage takes where rebatching is measured")
	flags.Int64Var(&o.budget, "memory", o.budget, "bytes of memory of the worker where rebatching is measured")
	return cmd
}

func (o *options) check() error {
	var errs []error
	if o.rows < 1 {
		errs = append(errs, fmt.Errorf("--rows: want 1 or more, found %d", o.rows))
	}
	if o.rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: want 1 or more, found %d", o.rounds))
	}
	return errors.Join(errs...)
}

func (o *options) run(ctx context.Context, progress io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	in, err := prepare(ctx, o, progress)
	if err != nil {
		return err
	}
	r := report{Workload: o.workload, Rows: o.rows, Columns: in.columns, Read: len(in.program.GetSources())}
	all := variants()
	rounds := make([][]usage, len(all))
	for round := range o.rounds {
		if _, err := in.measure(ctx, all[0].on); err != nil { // else the first one pays for fresh memory
			return fmt.Errorf("%s: %w", all[0].name, err)
		}
		for i, v := range all {
			u, err := in.measure(ctx, v.on)
			if err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
			rounds[i] = append(rounds[i], u)
			fmt.Fprintf(progress, "round %d, %s: %.2f s of CPU time, in %.2f s\n", round+1, v.name, u.CPU, u.Wall)
		}
	}
	for i, v := range all {
		r.Variants = append(r.Variants, result{Name: v.name, usage: median(rounds[i])})
	}
	if r.Rebatching, err = in.rebatching(ctx, o, progress); err != nil {
		return fmt.Errorf("rebatching: %w", err)
	}
	return r.write(o.out)
}
