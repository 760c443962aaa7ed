// Package offline holds the commands that need no fleet: `penstock convert`, `penstock diff` and `penstock show`, which
// make, compare and look at data, `penstock validate` and `penstock plan`, which do what a master does when a session
// opens, and `penstock ops`, which lists the transforms. Only for --order popularity is a master asked. Each is used
// from one goroutine.
package offline

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/cmd/convert"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// conversion is a call of `penstock convert`.
type conversion struct {
	options  convert.Options
	stores   cli.StorageFlags
	rowGroup cli.Bytes
	flatten  []string
	bytes    cli.Bytes
	seed     int64 // of --shuffle
	order    ordering
	format   string
}

// Convert returns `penstock convert`.
func Convert() *cobra.Command {
	c := conversion{rowGroup: 64 << 20}
	cmd := &cobra.Command{
		Use:   "convert URI...",
		Short: "Make Parquet that is good to train from, of files of any format that is read",
		Long: `Convert files to Parquet with typed columns, row groups of a good size, zstd and statistics, or to another
format (--to). Inputs are CSV, TSV, JSON lines, WebDataset, TFRecord, MDS, tokens, Parquet or Arrow, plain, .gz or .zst.
They are paths or URIs of stores. A folder stands for all such files below it, a glob for the files that match. --format
says how they are read, as a spec's dataset.format, and chooses the files of folders as sessions do.

Structs, lists and maps of Parquet and Arrow stay as they are, unless --flatten makes columns of them. Of the other
formats a column is what a spec selects: user.age of an object of JSON. Types of text columns are inferred, dates and
times among them (ISO 8601; UTC, unless they name a zone). Criteo's click logs are known by their layout.

The output appears only when it is whole. A conversion into several files (--file-rows, --file-bytes) that was
stopped goes on behind the last finished one when the same command runs again. An output in a store must be a new
place, below a prefix that the storage profile lists by write.

With --order popularity, columns that sessions read together lie next to each other. What that saves is said before
anything is written: it is what sessions would read of the first row group, as workers read it.`,
		Example: `  penstock convert clicks.tsv --out data --hex 'cat_*'
  penstock convert logs/ --out data
  penstock convert posts/ --out posts-parquet --file-rows 1000000 --skip-rows 10
  penstock convert 'events/*.jsonl.gz' --out events --format '{name: jsonl, columns: {score: float32}}'
  penstock convert day_*.tsv.gz --out criteo --columns criteo --file-rows 5000000
  penstock convert log.csv --out log.parquet --columns user:int64,clicked:bool,score:float32
  penstock convert log.csv --out scores.parquet --columns score,user
  penstock convert old/*.parquet --out new --row-group-rows 100000
  penstock convert logs/ --out days --partition-by day,country --sort-by user,time:desc
  penstock convert logs/ --out mixed --shuffle --file-bytes 256MiB
  penstock convert images/ --out tars --to tar --file-bytes 256MiB
  penstock convert images/ --out shards --to mds --compression zstd
  penstock convert 's3://logs/day=1/*.csv.gz' --out day=1 --storage-config stores.yaml --storage logs
  penstock convert delta+s3://lake/clicks@v12 --out clicks --storage-config stores.yaml --storage lake
  penstock convert features/ --out flat --flatten scores,ids --rest-below 0.001
  penstock convert logs/ --out s3://lake/derived/logs --file-rows 5000000 --storage-config stores.yaml
  penstock convert train/ --out ordered --order popularity --dry-run
  penstock convert train/ --out ordered --order popularity=features.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: c.run,
	}
	c.register(cmd.Flags())
	_ = cmd.MarkFlagRequired("out") // the flag exists
	return cli.Setup(cmd)
}

func (c *conversion) register(flags *pflag.FlagSet) {
	o := &c.options
	c.stores.Register(flags)
	flags.StringVar(&o.Profile, "storage", "", "storage profile of the inputs (default: default)")
	splitFlags(flags, &o.Split, &o.Subset)
	flags.StringVar(&o.Output, "out", "",
		"directory to make, here or in a store, or one file, such as x.parquet (required)")
	flags.StringVar(&o.OutProfile, "out-storage", "",
		"storage profile of the output, whose field write lists where it may be (default: that of --storage)")
	flags.StringVar(&o.To, "to", "", "format to write: "+strings.Join(convert.Formats(), ", ")+
		" (default: the one that the output's name tells, or parquet)")
	flags.StringVar(&c.format, "format", "",
		"format of the inputs, as a spec's dataset.format: jsonl, or '{name: csv, delimiter: \";\"}' "+
			"(default: by their names)")
	flags.Int64Var(&o.SkipRows, "skip-rows", 0,
		"rows that cannot be decoded, which are left out at most; of records, and of text with "+
			"--format csv (default: none)")
	flags.StringVar(&o.Compression, "compression", "", "compression of shards of MDS: zstd or none (default: none)")
	flags.BoolVar(&o.Overwrite, "overwrite", false, "replace an output of this machine that exists")
	flags.BoolVar(&o.Restart, "restart", false, "begin anew, and drop what an unfinished conversion left in the output")
	flags.BoolVar(&o.Verify, "verify", false, "read the output back, and compare it with the inputs row by row")
	flags.StringVar(&o.Delimiter, "delimiter", "",
		"delimiter of text files, such as tab (default: a tab for .tsv, a comma for .csv; "+
			"of .txt it must be given)")
	flags.StringVar(&o.Quote, "quote", "", "quote of text files, or none (default: \")")
	flags.StringSliceVar(&o.Nulls, "null", nil,
		"texts that stand for no value in text files, such as NA,\\N; an empty field always does")
	flags.StringArrayVar((*[]string)(&o.TimeFormats), "time-format", nil,
		"format of dates and times in text files, as of strptime, such as %d.%m.%Y; %s is Unix time; several are "+
			"tried in turn (default: ISO 8601)")
	flags.BoolVar(&o.NoHeader, "no-header", false,
		"text files begin with data, not with the columns' names; --no-header=false: with names, though they look "+
			"like data")
	flags.StringSliceVar(&o.Columns, "columns", nil,
		"names of the columns that are wanted; of text files also types, as name:type (bool, int32, int64, "+
			"float32, float64, string, binary, hex, date, timestamp, timestamp[ns]), which keep all columns, "+
			"or a preset: criteo")
	flags.StringSliceVar(&o.Hex, "hex", nil, "columns, or globs of them, with hexadecimal hashes that become int64")
	flags.IntVar(&o.InferRows, "infer-rows", 0, "rows to infer types from (default: 10000)")
	flags.Int64Var(&o.RowGroupRows, "row-group-rows", 0, "most rows of a row group (default: 65536)")
	flags.Var(&c.rowGroup, "row-group-bytes", "most bytes of a row group in memory")
	flags.Int64Var(&o.FileRows, "file-rows", 0, "rows of each file (default: all in one)")
	flags.Var(&c.bytes, "file-bytes", "bytes of each file, about, such as 256MiB (default: all in one)")
	flags.Int64Var(&c.seed, "shuffle", 0, "shuffle all rows, by a seed: --shuffle=7")
	flags.Lookup("shuffle").NoOptDefVal = "0"
	flags.StringArrayVar(&c.flatten, "flatten", nil,
		"map columns whose keys become columns, as scores,ids (all keys), ids=1,2,42 or ids=@FILE (a key or a "+
			"feature's name a line); structs and lists of structs, whose fields become columns")
	flags.Float64Var(&o.RestBelow, "rest-below", 0,
		"share of rows below which a key stays in its map, such as 0.001 (default: none does)")
	c.order.register(flags)
	flags.BoolVar(&o.DryRun, "dry-run", false, "print the columns and what their order saves, and write nothing")
	flags.StringSliceVar(&o.SortBy, "sort-by", nil,
		"columns to sort all rows by, as name or name:desc; equal rows keep their order, nulls are last")
	flags.StringSliceVar(&o.PartitionBy, "partition-by", nil,
		"columns that become folders, such as day=2026-01-02/country=DE, and leave the files")
}

func (c *conversion) run(cmd *cobra.Command, args []string) error {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	o := c.options
	if o.Format, err = formatOf(c.format); err != nil {
		return err
	}
	for _, text := range c.flatten {
		f, err := convert.ParseFlattening(text)
		if err != nil {
			return err
		}
		o.Flatten = append(o.Flatten, f)
	}
	if o.Store, err = c.stores.Open(); err != nil {
		return err
	}
	defer o.Store.Close()
	o.Inputs, o.RowGroupBytes, o.FileBytes = args, int64(c.rowGroup), int64(c.bytes)
	if cmd.Flags().Changed("shuffle") {
		o.Shuffle = &c.seed
	}
	o.OutProfile = cmp.Or(o.OutProfile, o.Profile)
	o.Progress = func(p convert.Progress) {
		what := "rows"
		if p.Counting {
			what = "rows' keys counted"
		}
		cli.Status(os.Stderr, "%s %s, %s of %s read", humanize.Comma(p.Rows), what, humanize.IBytes(uint64(p.Read)),
			humanize.IBytes(uint64(p.BytesToRead)))
	}
	o.Header = cmd.Flags().Changed("no-header") && !o.NoHeader
	switch {
	case output == "json": // it is in there
	case o.DryRun:
		c.order.tell = cmd.OutOrStdout()
	default:
		c.order.tell = cmd.ErrOrStderr()
	}
	if err := c.order.use(&o); err != nil {
		return err
	}
	result, err := convert.Run(cmd.Context(), o)
	cli.Status(os.Stderr, "")
	if err != nil {
		return err
	}
	switch {
	case output == "json" && o.DryRun:
		return cli.PrintJSON(cmd.OutOrStdout(), dryRun{result.Columns, result.Notes, c.order.told})
	case output == "json":
		return cli.PrintJSON(cmd.OutOrStdout(), converted{result, c.order.told})
	case o.DryRun:
		return printDryRun(cmd.OutOrStdout(), result)
	}
	return printResult(cmd.OutOrStdout(), result)
}

// formatOf reads --format; nil: it says nothing.
func formatOf(text string) (*pb.Format, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // the files' names tell
	}
	f, err := spec.ParseFormat(text)
	if err != nil {
		return nil, fmt.Errorf("--format %s: %w", text, err)
	}
	return f, nil
}

// converted is what a conversion made, for programs.
type converted struct {
	convert.Result
	Order *foretold `json:"order,omitempty"`
}

// dryRun is what one would make.
type dryRun struct {
	Columns []string  `json:"columns"` // "name: type"
	Notes   []string  `json:"notes,omitempty"`
	Order   *foretold `json:"order,omitempty"`
}

func printDryRun(w io.Writer, r convert.Result) error {
	printNotes(w, r)
	if err := printSome(w, english.Plural(len(r.Columns), "column", ""), r.Columns, 100); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "nothing is written")
	return err
}

func printResult(w io.Writer, r convert.Result) error {
	printNotes(w, r)
	if r.Verified {
		fmt.Fprintln(w, "verified: the output holds the rows of the inputs")
	}
	made := fmt.Sprintf("%s %s, %s in %s", humanize.Comma(r.Rows), english.PluralWord(int(r.Rows), "row", ""),
		humanize.IBytes(uint64(r.Bytes)), english.Plural(len(r.Files), "file", ""))
	if err := printSome(w, made, r.Files, 20); err != nil {
		return err
	}
	return printSome(w, english.Plural(len(r.Columns), "column", ""), r.Columns, 100)
}

func printNotes(w io.Writer, r convert.Result) {
	for _, note := range r.Notes {
		terminal.Printf(w, "%s\n", note)
	}
}

// printSome prints a list, and of a long one the beginning; JSON has all of it.
func printSome(w io.Writer, title string, all []string, most int) error {
	_, err := fmt.Fprintf(w, "%s:\n", title)
	for _, name := range all[:min(most, len(all))] {
		_, err = terminal.Printf(w, "  %s\n", name)
	}
	if more := len(all) - most; more > 0 {
		_, err = fmt.Fprintf(w, "  and %s more\n", humanize.Comma(int64(more)))
	}
	return err
}
