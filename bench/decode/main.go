// Decode compares the speed of Parquet decoders on one core: worker/columns, arrow's pqarrow, pyarrow and DuckDB.
//
//	go run ./bench/decode
//	go run ./bench/decode --data 's3-copy/*.parquet' --rounds 9 --output json
//
// It writes files as training data is made of (files.go), or takes any by --data. Each reader decodes each file once to
// compare what it says: digests of validity, lengths and values of every column (digest.go) must be the same. Then all readers
// take turns (measure.go), and each one's best round counts, by the CPU time that the operating system accounts to it, with all
// of its threads and its collector. Go runs with GOMAXPROCS=1; pyarrow and DuckDB (decode.py, a child process) with one thread.
//
// worker/columns, pqarrow and pyarrow are given the file's bytes in memory. DuckDB reads the file from the page cache,
// and what reading the columns' bytes takes there is not counted. pyarrow and DuckDB have three ways each that could be called
// decoding; all take their turn in each round, and the best of all rounds and ways counts, file by file, and is named.
//
// The exit status is 0 only if worker/columns is at least 4 times as fast as pqarrow, by the geometric mean of the files that pqarrow
// can read. It is told without "none, plain", too, of which worker/columns copies not one value, and which files are below. Where pages are compressed by zstd, for which both have the same library, what it takes alone is shown (limit.go).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
)

// target is how many times faster than pqarrow worker/columns has to be, by the mean.
const target = 4

// targets are what files are named that are below: of pyarrow and DuckDB, those that they decode as fast, or faster.
var targets = map[string]float64{pqArrow: target, pyArrow: 1, duckDB: 1} //nolint:gochecknoglobals // never changed

func main() {
	runtime.GOMAXPROCS(1)
	os.Exit(cli.Main(command()))
}

// options are the program's flags.
type options struct {
	data, files  []string
	dir, python  string
	output       string
	rows, rounds int
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "decode",
		Short: "Compare Parquet decoders on one core",
		Long: "Decode Parquet files by worker/columns, arrow's pqarrow, pyarrow and DuckDB, in turns and on one core each, after their\n" +
			"results have been found equal. The exit status is 0 only if worker/columns is at least 4 times as fast as pqarrow,\n" +
			"by the geometric mean of the files.\n\n" +
			"pyarrow and DuckDB need a Python that has them (`make python`); without it they are left out.",
		Example: "  go run ./bench/decode\n" +
			"  go run ./bench/decode --rows 65536 --rounds 3 --output json\n" +
			"  go run ./bench/decode --dir /tmp/decode --files delta --files 'strings*'\n" +
			"  go run ./bench/decode --data 'day_*.parquet'",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.data, "data", nil, "Parquet files to decode, patterns allowed (default: files are written, as training data is made of)")
	flags.StringArrayVar(&o.files, "files", nil, "name of a file to decode of those that are written, patterns allowed; may be repeated (default: all)")
	flags.StringVar(&o.dir, "dir", "", "folder that keeps the files that are written (default: one that is removed in the end)")
	flags.IntVar(&o.rows, "rows", 4*groupRows, "rows of the files that are written, in row groups of 65536")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds, of which the best counts")
	flags.StringVar(&o.python, "python", "", "Python with pyarrow and duckdb (default: .venv/bin/python, else python3)")
	flags.StringVar(&o.output, "output", "table", "table or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
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
	if o.output != "table" && o.output != "json" {
		errs = append(errs, fmt.Errorf("--output: want table or json, found %q", o.output))
	}
	return errors.Join(errs...)
}

// run reports on all files. It fails if the target is missed.
func (o *options) run(ctx context.Context, out, progress io.Writer) error {
	r, err := o.report(ctx, progress)
	if err != nil {
		return err
	}
	if o.output == "json" {
		err = r.json(out)
	} else {
		err = r.table(out)
	}
	if err != nil {
		return err
	}
	return r.verdict()
}

// report measures all files.
func (o *options) report(ctx context.Context, progress io.Writer) (*report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	py, err := startPython(ctx, o.python)
	if err != nil {
		fmt.Fprintf(progress, "pyarrow and DuckDB are left out: %v\n", err)
	} else {
		defer py.stop()
	}
	inputs, remove, err := o.inputs(ctx, py, progress)
	if err != nil {
		return nil, err
	}
	defer remove()
	r := &report{Rounds: o.rounds, CPU: cpu(), Versions: versions(py)}
	if inputs, err = o.chosen(inputs); err != nil {
		return nil, err
	}
	for _, in := range inputs {
		fmt.Fprintf(progress, "%s\n", in.name)
		m, err := measure(ctx, in, py, o.rounds)
		if errors.Is(err, errIncomparable) && len(inputs) > 1 {
			fmt.Fprintf(progress, "%s is left out: %v\n", in.name, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.name, err)
		}
		r.Files = append(r.Files, m)
	}
	return r, nil
}

// inputs are the files to decode.
func (o *options) inputs(ctx context.Context, py *python, progress io.Writer) (in []input, remove func(), err error) {
	if len(o.data) == 0 {
		return o.written(ctx, py, progress)
	}
	for _, pattern := range o.data {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, nil, fmt.Errorf("--data %s: %w", pattern, err)
		}
		if len(paths) == 0 {
			return nil, nil, fmt.Errorf("--data %s: no such file", pattern)
		}
		for _, p := range paths {
			in = append(in, input{name: filepath.Base(p), path: p})
		}
	}
	return in, func() {}, nil
}

// chosen are those that --files names.
func (o *options) chosen(all []input) (in []input, err error) {
	if len(o.files) == 0 {
		return all, nil
	}
	taken := map[string]bool{}
	for _, pattern := range o.files {
		some := false
		for _, file := range all {
			ok, err := path.Match(pattern, file.name)
			if err != nil {
				return nil, fmt.Errorf("--files %s: %w", pattern, err)
			}
			if some = some || ok; ok && !taken[file.name] {
				taken[file.name] = true
				in = append(in, file)
			}
		}
		if !some {
			names := make([]string, len(all))
			for i := range all {
				names[i] = strconv.Quote(all[i].name)
			}
			return nil, fmt.Errorf("--files %s: no such file; there are %s", pattern, strings.Join(names, ", "))
		}
	}
	return in, nil
}

// written are the files of files.go.
func (o *options) written(ctx context.Context, py *python, progress io.Writer) (in []input, remove func(), err error) {
	dir, remove := o.dir, func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "penstock-decode-*"); err != nil {
			return nil, nil, err
		}
		remove = func() { os.RemoveAll(dir) }
	} else if err = os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	if in, err = writeFiles(ctx, dir, o.rows, py, progress); err != nil {
		remove()
		return nil, nil, err
	}
	return in, remove, nil
}
