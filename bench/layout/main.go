// Layout measures what the order of columns saves: it makes up jobs that read a table of many columns, writes the table
// with the columns as they are and as `penstock convert --order popularity` has them, and reads both as workers do,
// from disk and from object stores that take their time.
//
//	go run ./bench/layout
//	go run ./bench/layout --models 40 --skewed --gap 1MiB
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/cmd/convert"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
)

func main() { os.Exit(cli.Main(command())) }

// bench is a run.
type bench struct {
	shape  shape
	groups int
	timed  int // jobs
	gap    cli.Bytes
	skewed bool
	group  cli.Bytes
}

func command() *cobra.Command {
	b := &bench{shape: meta(), group: 64 << 20}
	cmd := &cobra.Command{
		Use: "layout", Short: "Measure what the order of columns saves", SilenceUsage: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.IntVar(&b.shape.columns, "columns", b.shape.columns, "columns of the table")
	flags.IntVar(&b.shape.jobs, "jobs", b.shape.jobs, "jobs that read it")
	flags.IntVar(&b.shape.models, "models", b.shape.models, "models that jobs are of")
	flags.Float64Var(&b.shape.change, "change", b.shape.change, "share of a model's features that a job replaces")
	flags.Uint64Var(&b.shape.seed, "seed", b.shape.seed, "seed of everything random")
	flags.BoolVar(&b.skewed, "skewed", false, "jobs read unequal numbers of rows, by Zipf's law")
	flags.Var(&b.group, "row-group-bytes", "about what a row group has")
	flags.IntVar(&b.groups, "row-groups", 3, "row groups of the file")
	flags.IntVar(&b.timed, "timed", 20, "jobs that are timed, evenly chosen; bytes and requests are those of all")
	flags.Var(&b.gap, "gap", "gaps that are read along (default: as workers do)")
	return cmd
}

func (b *bench) run(ctx context.Context, out io.Writer) error {
	if min(b.shape.columns, b.shape.jobs, b.shape.models, b.groups) < 1 {
		return errors.New("--columns, --jobs, --models and --row-groups are 1 or more")
	}
	b.shape.even, b.shape.groupBytes = !b.skewed, int64(b.group)
	dir, err := os.MkdirTemp("", "penstock-layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := b.shape.make()
	in := filepath.Join(dir, "in.arrow")
	if err := t.write(in, b.groups); err != nil {
		return err
	}
	var tables []*table
	for _, l := range []layout{{"file order", nil}, {"popularity", features.LayoutOf(t.reads()).Order()}} {
		path := filepath.Join(dir, l.name, "a.parquet")
		if err := l.write(ctx, in, path); err != nil {
			return err
		}
		opened, err := b.open(ctx, t, path)
		if err != nil {
			return err
		}
		opened.layout = l.name
		tables = append(tables, opened)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STORE\tLAYOUT\tWANTED\tREAD\tREQUESTS\tSECONDS\tAGAINST FILE ORDER")
	for _, from := range places() {
		seconds, err := b.measure(ctx, t, tables, from)
		if err != nil {
			return fmt.Errorf("%s: %w", from.name, err)
		}
		for i, of := range tables {
			write(w, from.name, of.layout, of.cost, tables[0].cost, seconds[i], seconds[0])
		}
	}
	var first features.Cost
	for i, of := range tables {
		cost := of.unbounded(t)
		if i == 0 {
			first = cost
		}
		write(w, "gaps of 1.25 MiB, unbounded", of.layout, cost, first, 0, 0)
	}
	return w.Flush()
}

// write writes what reading a row group costs, on average over jobs; 0 seconds: it is not read.
func write(w io.Writer, store, layout string, cost, was features.Cost, seconds, were float64) {
	time, against := "", ""
	if seconds > 0 {
		time = fmt.Sprintf("%.4f", seconds)
	}
	if cost != was {
		against = fmt.Sprintf("bytes %+.0f%%, requests %+.0f%%", change(cost.Bytes, was.Bytes),
			change(cost.Requests, was.Requests))
		if seconds > 0 {
			against += fmt.Sprintf(", time %+.0f%%", change(seconds, were))
		}
	}
	fmt.Fprintf(w, "%s\t%s\t%.2f MiB\t%.2f MiB\t%.1f\t%s\t%s\n", store, layout, cost.Wanted/(1<<20),
		cost.Bytes/(1<<20), cost.Requests, time, against)
}

func change(now, was float64) float64 { return 100 * (now/was - 1) }

// layout is an order of columns.
type layout struct {
	name  string
	order []int // nil: as they are
}

func (l layout) write(ctx context.Context, in, out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	o := convert.Options{Inputs: []string{in}, Output: out, RowGroupRows: groupRows, RowGroupBytes: 1 << 40}
	if l.order != nil {
		o.Order = &convert.Order{Of: func(context.Context, []string, func() ([]byte, error)) ([]int, error) {
			return l.order, nil
		}}
	}
	_, err := convert.Run(ctx, o)
	return err
}

// how is how workers read.
func (b *bench) how() storage.Reading { return storage.Reading{MaxGap: int64(b.gap)} }
