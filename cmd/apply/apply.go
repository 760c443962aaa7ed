// Package apply is `penstock apply`, which makes of rows at hand the tensors that sessions make of a dataset's, and the
// process in which the Python package's Transforms do so. Package worker/apply does the work; what is here reads rows,
// of files or of JSON, and writes tensors. It is used from one goroutine, but for the reader of requests.
package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/read"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/worker/apply"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// schemaFiles is how many files of --schema are looked at.
const schemaFiles = 64

// applier is `penstock apply`.
type applier struct {
	ops       *transform.Registry
	stores    cli.StorageFlags
	functions workercommand.PythonFlags
	outputs   []string
	schema    string // where the training's data is
	profile   string // of the storage
	memory    cli.Bytes

	storage storage.Storage
	output  string
	out     io.Writer
	notes   io.Writer
	table   *read.Table // --output parquet
	said    bool        // which labels are left out
}

// Command returns `penstock apply`.
func Command(ops *transform.Registry) *cobra.Command {
	a := &applier{ops: ops, memory: apply.DefaultMemory}
	cmd := &cobra.Command{
		Use:   "apply SPEC [ROWS] [PATH]",
		Short: "Apply a spec's transforms to rows, without a fleet",
		Long: "Apply a spec's transforms to rows, as a model that was trained with the spec is served: the values\n" +
			"are those of training, bit for bit. " +
			"ROWS are Parquet or Arrow files, or JSON lines (.jsonl, .ndjson, .json, or - for standard input, the " +
			"default). Each row gives one:\n" +
			"filter, sampling and transforms with training_only do not run. Labels whose columns the rows lack are " +
			"left out.\n" +
			"The values are written as `penstock read` does: as text, with --output json as JSON lines, and with " +
			"--output parquet to the file PATH.",
		Example: "  penstock apply spec.yaml rows.parquet\n" +
			"  penstock apply spec.yaml - --schema data/ --output json < rows.jsonl\n" +
			"  penstock apply spec.yaml s3://bucket/new/ tensors.parquet --output parquet --outputs dense,cat_0",
		Args: cobra.RangeArgs(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&a.outputs, "outputs", nil,
		"names of the tensors to make (default: all but labels whose columns the rows lack)")
	flags.StringVar(&a.schema, "schema", "",
		"file or folder of the training's data, which says of which types columns are (default: the first rows do)")
	flags.StringVar(&a.profile, "storage", "",
		"storage profile of ROWS and --schema, as a spec's dataset.storage (default: the one named default)")
	flags.Var(&a.memory, "memory",
		"bytes that rows may take, that may be made of them, and that side tables may take, at once")
	a.stores.Register(flags)
	a.functions.RegisterTrial(flags)
	return cli.Setup(cmd)
}

func (a *applier) run(cmd *cobra.Command, args []string) (err error) {
	if a.output, err = cli.Output(cmd, "parquet"); err != nil {
		return err
	}
	if (a.output == "parquet") != (len(args) == 3) {
		return errors.New("--output parquet and PATH go together: penstock apply SPEC ROWS PATH --output parquet")
	}
	s, err := cli.ReadSpec(args[0])
	if err != nil {
		return err
	}
	if a.storage, err = a.stores.Open(); err != nil {
		return err
	}
	a.out, a.notes = cmd.OutOrStdout(), cmd.ErrOrStderr()
	cfg := apply.Config{Spec: s, Ops: a.ops, Outputs: a.outputs, Memory: int64(a.memory), Storage: a.storage}
	if cfg.Schema, err = a.trained(cmd.Context()); err != nil {
		return err
	}
	if err := fit(cmd.Context(), a.storage, &cfg); err != nil {
		return fmt.Errorf("%s:\n%w", args[0], err)
	}
	if a.output == "parquet" {
		if a.table, err = read.CreateTable(args[2]); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.table.Abandon()) }()
	}
	rows := "-"
	if len(args) > 1 {
		rows = args[1]
	}
	python, err := a.functions.Trial(quiet())
	if err != nil {
		return err
	}
	err = withFunctions(cmd.Context(), python, nil, cfg, func(t *apply.Transforms) error {
		return a.apply(cmd.Context(), t, rows, cfg.Schema, cmd.InOrStdin())
	})
	if _, ok := errors.AsType[spec.Problems](err); ok {
		return fmt.Errorf("%s:\n%w", args[0], err)
	}
	return err
}

// fit reads what a spec's fitted file says.
func fit(ctx context.Context, st storage.Storage, cfg *apply.Config) error {
	known, err := master.ReadFitted(ctx, st, cfg.Spec)
	if known != nil { // else it were an interface of nothing
		cfg.Fitted = known
	}
	return err
}

// trained is the schema of the training's data; nil: nobody says.
func (a *applier) trained(ctx context.Context) (*spec.Schema, error) {
	if a.schema == "" {
		return nil, nil //nolint:nilnil // documented
	}
	files, err := a.storage.List(ctx, a.profile, []string{a.schema})
	if err != nil {
		return nil, fmt.Errorf("--schema: %w", err)
	}
	var parts []spec.FileSchema
	for _, f := range files[:min(len(files), schemaFiles)] {
		described, err := formats.Load(ctx, a.storage, a.profile, f, nil)
		if formats.IsForeign(f, err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--schema: %w", err)
		}
		parts = append(parts, format.Schema(f, described))
	}
	merged, err := spec.Merge(parts)
	if err != nil {
		return nil, fmt.Errorf("--schema: %w", err)
	}
	return &merged, nil
}

// apply writes the tensors of all rows.
func (a *applier) apply(
	ctx context.Context, t *apply.Transforms, rows string, trained *spec.Schema, stdin io.Reader,
) error {
	of := a.files
	if isLines(rows) {
		of = func(ctx context.Context, t *apply.Transforms, rows string) error {
			return a.lines(ctx, t, rows, trained, stdin)
		}
	}
	if err := of(ctx, t, rows); err != nil {
		return err
	}
	program := t.Program()
	switch {
	case a.table == nil:
		return nil
	case program == nil:
		return fmt.Errorf("%s has no rows; give some, or leave --output parquet out", rows)
	}
	return a.table.Close(program)
}

// isLines tells rows of JSON by their name.
func isLines(name string) bool {
	return name == "-" || slices.Contains([]string{".json", ".jsonl", ".ndjson"}, strings.ToLower(path.Ext(name)))
}

// files applies the transforms to the rows of files.
func (a *applier) files(ctx context.Context, t *apply.Transforms, uri string) error {
	files, err := a.storage.List(ctx, a.profile, []string{uri})
	if err != nil {
		return err
	}
	for _, f := range files {
		write := func(b *tensor.Batch) error { return a.write(t, b) }
		err := t.Each(ctx, a.storage, a.profile, f, write)
		if formats.IsForeign(f, err) {
			fmt.Fprintln(os.Stderr, "left out:", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lines applies the transforms to rows of JSON.
func (a *applier) lines(
	ctx context.Context, t *apply.Transforms, name string, trained *spec.Schema, from io.Reader,
) error {
	title := "standard input"
	if name != "-" {
		title = name
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("rows: %w; JSON lines are read of local files, and of standard input (-)", err)
		}
		defer f.Close()
		from = f
	}
	l := newLines(title, from, nil)
	if trained != nil {
		l.trained = arrowSchema(trained)
	}
	for {
		rows, err := l.next()
		if err != nil || rows == nil {
			return err
		}
		b, err := t.ApplyFrom(ctx, rows, l.name, l.rows-rows.NumRows())
		if err != nil {
			return errors.Join(append([]error{err}, l.wrong...)...)
		}
		err = a.write(t, b)
		b.Release()
		if err != nil {
			return err
		}
	}
}

// write writes the tensors of some rows.
func (a *applier) write(t *apply.Transforms, made *tensor.Batch) error {
	if without := t.Without(); len(without) > 0 && !a.said {
		a.said = true
		fmt.Fprintf(a.notes, "the rows lack the columns of %s, which %s left out\n",
			english.OxfordWordSeries(without, "and"), english.PluralWord(len(without), "is", "are"))
	}
	b, err := client.BatchOf(made.Record())
	if err != nil {
		return err
	}
	defer b.Release()
	if a.table != nil {
		return a.table.Write(b, b.Rows)
	}
	for i := range b.Rows {
		if err := read.PrintRow(a.out, b, i, a.output); err != nil {
			return err
		}
	}
	return nil
}
