// Ablation measures what each of the worker's optimisations is worth: with all of them, with one left out, with one alone, and with
// none.
//
//	go run ./bench/ablation
//
// The path is that of a worker and its trainer in one process (path.go): storage, decoding, transforms, tensors, a Flight stream over
// loopback, one copy at the trainer, to batches of its size (join.go). Each optimisation (variants.go) has a simple way of doing
// without it: all columns are read, every chunk by a request of its own, by arrow's Parquet reader (arrow.go), rows are maps
// (rows.go), a row group is transformed at once, or by each op as a whole (stages.go), and arrow's Flight sends it. Files are read
// from the page cache; what an object store would take for the requests is counted beside (counting.go). Each variant runs once
// before it is measured, which is when its tensors are compared with the others'; who comes first changes from round to round.
//
// That trainers, not workers, join rows to batches (rebatch.go) is measured apart, on the worker's own pipeline with a fixed memory
// budget and a storage whose requests do take their time.
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
	rows, rounds, batch int
	least, latency      time.Duration
	bandwidth, window   cli.Bytes
	budget              cli.Bytes
}

func command() *cobra.Command {
	o := options{budget: 256 << 20, window: 4 << 20, bandwidth: 90_000_000}
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
	flags.IntVar(&o.rounds, "rounds", 3, "turns of each variant; the median of all of its passes counts")
	flags.DurationVar(&o.least, "least", time.Second, "how long a variant's turn takes at least, in passes, behind one that is not measured")
	flags.Var(&o.window, "window", "decoded columns of a window that fits the cache")
	flags.DurationVar(&o.latency, "latency", 5*time.Millisecond, "what a request to an object store takes until its first byte comes")
	flags.Var(&o.bandwidth, "bandwidth", "bytes a second of each connection to it")
	flags.Var(&o.budget, "memory", "memory of the worker where rebatching is measured")
	flags.IntVar(&o.batch, "batch", 0, "rows of the trainer's batches (default: the workload's)")
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
	if o.batch < 0 {
		errs = append(errs, fmt.Errorf("--batch: want 1 or more, found %d", o.batch))
	}
	if o.latency < 0 {
		errs = append(errs, fmt.Errorf("--latency: want 0 or more, found %s", o.latency))
	}
	if o.bandwidth < 1 || o.window < 1 || o.budget < 1 {
		errs = append(errs, errors.New("--bandwidth, --window, --memory: want 1 or more"))
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
	r := report{
		Workload: o.workload, Rows: o.rows, Columns: in.columns, Read: len(in.program.GetSources()), Needed: in.needed,
		WindowRows: in.windowRows(in.program), GroupRows: in.groupRows(),
		Latency: o.latency.Seconds(), Bandwidth: int64(o.bandwidth), Rounds: o.rounds,
	}
	if r.Variants, err = in.variants(ctx, o, progress); err != nil {
		return err
	}
	if r.Rebatching, err = in.rebatching(ctx, o, progress); err != nil {
		return fmt.Errorf("rebatching: %w", err)
	}
	return r.write(o.out)
}

// variants measures all of them, in turns.
func (in *input) variants(ctx context.Context, o *options, progress io.Writer) ([]result, error) {
	all := variants()
	passes := make([][]usage, len(all))
	for round := range o.rounds {
		for i := range all {
			at := (i + round*len(all)/o.rounds) % len(all)
			turn, err := in.turn(ctx, all[at].on, o.least)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[at].name, err)
			}
			passes[at] = append(passes[at], turn...)
			u := median(turn)
			fmt.Fprintf(progress, "round %d, %s: %.2f s of CPU time, in %.2f s (%d passes)\n", round+1, all[at].name, u.CPU, u.Wall, len(turn))
		}
	}
	results := make([]result, len(all))
	for i, v := range all {
		results[i] = result{Name: v.name, Passes: len(passes[i]), usage: median(passes[i])}
	}
	return results, nil
}

// turn measures a variant, once it is warm, until that has taken long enough.
func (in *input) turn(ctx context.Context, on optimisations, least time.Duration) (passes []usage, err error) {
	if err := in.warm(ctx, on); err != nil {
		return nil, err
	}
	for began := time.Now(); len(passes) == 0 || time.Since(began) < least; {
		u, err := in.measure(ctx, on, nil)
		if err != nil {
			return nil, err
		}
		passes = append(passes, u)
	}
	return passes, nil
}
