// Package demo is `penstock demo`: the main job with everything embedded. It makes a dataset, runs a master that keeps
// workers, as penstock local does, and trainers as processes of their own, kills workers in the middle, and counts what
// was delivered, row by row, with the values that it wrote. It is used from one goroutine.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables"
	"github.com/penstock-ml/penstock/worker/excluded"
)

// vectorBytes bounds what is kept of rows that a table has deleted.
const vectorBytes = 64 << 20

// minToScale is how many rows it takes for trainers' speed to change, and the fleet to follow, before all is over.
const minToScale = 1_000_000

// options are the demo's flags.
type options struct {
	rows, workers, trainers, kill int
	data, cache                   string
	storageFile                   string
	keep, steady, stay            bool
}

// Command returns `penstock demo`.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the main job on this machine, kill a worker, and check every row",
		Long: "Run the main job with everything embedded: etcd, a master, workers and trainers as processes on " +
			"loopback.\n" +
			"A Criteo-shaped dataset is made once and cached. The trainers are slow at first, fast in the middle " +
			"and slow again, and\n" +
			"the fleet grows and shrinks with them: each decision says why, and the dashboard shows it. In the " +
			"middle of the epoch\n" +
			"a worker is killed with SIGKILL and replaced. In the end all rows are counted by their places in the " +
			"files, and\n" +
			"values of the columns that the spec leaves as they are compared with those that were written (with " +
			"--data there are\n" +
			"none to compare with): the exit status is 0 only if each row arrived exactly once, with these values. " +
			"On a terminal\n" +
			"it takes its time, so that there is something to see, and the fleet and its dashboard stay until Ctrl-C.",
		Example: "  penstock demo\n  penstock demo --rows 10000000 --workers 5 --trainers 4 --kill 3\n  penstock " +
			"demo --data s3://bucket/table/ --output json\n  penstock demo --data delta+s3://bucket/table",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	o.dataset(flags)
	flags.IntVar(&o.workers, "workers", 3, "most worker processes; with --steady, all of them")
	flags.IntVar(&o.trainers, "trainers", 2, "trainer processes")
	flags.IntVar(&o.kill, "kill", 1, "workers to kill on the way")
	flags.StringVar(&o.data, "data", "", "URI of a dataset or table to read instead; features are chosen by type")
	flags.BoolVar(&o.steady, "steady", false,
		"keep the trainers as fast as they can be, and the number of workers as it is (so it is for small datasets, "+
			"and with --data)")
	flags.BoolVar(&o.keep, "keep", false,
		"keep the processes' logs and ledgers (they are kept anyway when something fails)")
	flags.BoolVar(&o.stay, "stay", false,
		"be slow for long enough to be watched, and keep the fleet and its dashboard until Ctrl-C (default: on a "+
			"terminal, without --output json)")
	flags.StringVar(&o.storageFile, "storage-config", "", "YAML file with storage profiles, for --data")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		if err := o.check(); err != nil {
			return err
		}
		show := newProgress(cmd.ErrOrStderr())
		if !cmd.Flags().Changed("stay") {
			o.stay = show.width > 0 && output != "json"
		}
		report, err := run(cmd.Context(), o, show, func(report *Report) error {
			if output == "json" {
				return cli.PrintJSON(cmd.OutOrStdout(), report)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%v", report)
			return err
		})
		if err == nil && !report.OK {
			err = errors.New("demo: not all of it holds; see the problems above")
		}
		return err
	}
	cmd.AddCommand(datasetCommand(), trainerCommand())
	return cli.Setup(cmd)
}

// datasetCommand is `penstock demo dataset`, which makes the dataset for other programs.
func datasetCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Make the generated dataset and print its URI",
		Long: "Make the demo's Criteo-shaped dataset, where it is not cached, and print its URI: label (int32), " +
			"int_0 to int_12\n" +
			"(float32), cat_0 to cat_25 (lists of int64). The label follows from two of the features, and chance.",
		Example: "  penstock demo dataset --rows 200000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			output, err := cli.Output(cmd)
			if err != nil {
				return err
			}
			if o.rows < 1 {
				return fmt.Errorf("--rows: want 1 or more, found %d", o.rows)
			}
			show := newProgress(cmd.ErrOrStderr())
			uri, err := makeDataset(cmd.Context(), o, show)
			show.end()
			if err != nil {
				return err
			}
			if output == "json" {
				return cli.PrintJSON(cmd.OutOrStdout(), struct {
					URI string `json:"uri"`
				}{uri})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), uri)
			return err
		},
	}
	o.dataset(cmd.Flags())
	return cmd
}

// dataset registers the flags of the generated dataset.
func (o *options) dataset(flags *pflag.FlagSet) {
	flags.IntVar(&o.rows, "rows", 2_000_000, "rows of the generated dataset")
	flags.StringVar(&o.cache, "cache", "",
		"directory of generated datasets (default: penstock in the user's cache directory)")
}

func (o options) check() error {
	var errs []error
	checkMin := func(flag string, value, minimum int) {
		if value < minimum {
			errs = append(errs, fmt.Errorf("--%s: want %d or more, found %d", flag, minimum, value))
		}
	}
	checkMin("rows", o.rows, 1)
	checkMin("workers", o.workers, 1)
	checkMin("trainers", o.trainers, 1)
	checkMin("kill", o.kill, 0)
	return errors.Join(errs...)
}

// job is what the demo will run.
type job struct {
	uri     string // of the dataset; a table's has its version
	spec    *pb.Spec
	files   []file
	written *written // nil if the dataset is the user's
	total   int64    // rows of the dataset
}

// prepare makes or looks at the dataset and writes the spec.
func prepare(ctx context.Context, o options, show *progress) (*job, error) {
	cfg, err := storage.LoadConfig(o.storageFile, os.Environ())
	if err != nil {
		return nil, err
	}
	st, err := storage.New(cfg)
	if err != nil {
		return nil, err
	}
	if o.data != "" {
		return existing(ctx, st, o.data, show)
	}
	uri, err := makeDataset(ctx, o, show)
	if err != nil {
		return nil, err
	}
	s, err := parseCriteoSpec(uri)
	if err != nil {
		return nil, err
	}
	j, _, err := survey(ctx, st, uri)
	if err != nil {
		return nil, err
	}
	j.spec, j.written = s, newWritten()
	return j, nil
}

// makeDataset makes the generated dataset where it is not cached, and returns its URI.
func makeDataset(ctx context.Context, o options, show *progress) (string, error) {
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = os.TempDir()
		}
		o.cache = filepath.Join(dir, "penstock")
	}
	cache, err := filepath.Abs(o.cache) // others use the URI, elsewhere
	if err != nil {
		return "", fmt.Errorf("--cache: %w", err)
	}
	paths, err := dataset.Criteo(ctx, cache, o.rows, func(done, total int) {
		show.show("dataset", int64(done), int64(total), "made once, then cached in "+cache)
	})
	if err != nil {
		return "", err
	}
	return "file://" + filepath.Dir(paths[0]) + "/", nil
}

// existing looks at a dataset of the user's.
func existing(ctx context.Context, st storage.Storage, uri string, show *progress) (*job, error) {
	j, schema, err := survey(ctx, st, uri)
	if err != nil {
		return nil, err
	}
	s, left, err := SpecFor(j.uri, schema)
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	spec.ResolvePaths(s, here)
	show.say("%s: %s, %s, %s left out %v", j.uri, english.Plural(len(j.files), "file", ""),
		english.Plural(len(s.GetFeatures()), "feature", ""), english.Plural(len(left), "column", ""), left)
	j.spec = s
	return j, nil
}

// survey finds the files of a dataset, with their rows, and its columns.
func survey(ctx context.Context, st storage.Storage, uri string) (*job, spec.Schema, error) {
	listing, err := tables.Tell(ctx, st, &pb.Dataset{Uri: []string{uri}})
	if err != nil {
		return nil, spec.Schema{}, err
	}
	j := &job{uri: uri}
	deleted := excluded.New(formats.NewCache(vectorBytes), vectorBytes)
	var schemas []spec.FileSchema
	for _, f := range listing.Files {
		if f, err = tables.Identified(ctx, st, "", f); err != nil {
			return nil, spec.Schema{}, err
		}
		holds, err := formats.Load(ctx, st, "", f, nil)
		if formats.IsForeign(f, err) {
			continue
		}
		if err != nil {
			return nil, spec.Schema{}, tables.Vanished(f, err)
		}
		one := file{uri: f.GetUri(), rows: format.Rows(holds), first: j.total}
		gone, err := deleted.Of(ctx, st, "", f, one.rows, excluded.Unbounded{})
		if err != nil {
			return nil, spec.Schema{}, err
		}
		one.exclude(gone)
		j.files = append(j.files, one)
		j.total += one.rows - gone.Len()
		schemas = append(schemas, format.Schema(f, holds))
	}
	if t := listing.Table; t != nil {
		j.uri = t.URI
		return j, t.Columns, nil
	}
	schema, err := spec.Merge(schemas)
	return j, schema, err
}

// run is the demo; the report says what was found, and is told as soon as it is; an error says that it could not be
// run.
func run(ctx context.Context, o options, show *progress, onReport func(*Report) error) (*Report, error) {
	defer show.end()
	j, err := prepare(ctx, o, show)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "penstock-demo-*")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if j.total == 0 && o.kill > 0 {
		show.say("the dataset has no rows, and so no middle to kill a worker in")
		o.kill = 0
	}
	o.steady = o.steady || o.data != "" || j.total < minToScale
	report, err := j.run(ctx, o, dir, show, onReport)
	if report == nil && ctx.Err() != nil && !o.keep {
		return nil, errors.Join(errors.New("demo: interrupted"), os.RemoveAll(dir))
	}
	if err != nil || !report.OK || o.keep {
		show.say("the processes' logs are in %s", dir)
		return report, err
	}
	return report, os.RemoveAll(dir)
}
