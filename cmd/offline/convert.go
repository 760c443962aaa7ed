// Package offline holds the commands that need no fleet: `penstock convert` and `penstock show`, which make and look at
// data, `penstock validate` and `penstock plan`, which do what a master does when a session opens, and `penstock ops`,
// which lists the transforms. Each is used from one goroutine.
package offline

import (
	"fmt"
	"os"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/convert"
)

// Convert returns `penstock convert`.
func Convert() *cobra.Command {
	var o convert.Options
	var stores cli.StorageFlags
	rowGroup := cli.Bytes(64 << 20)
	cmd := &cobra.Command{
		Use:   "convert URI...",
		Short: "Make Parquet that is good to train from, of CSV, TSV or Parquet",
		Long: "Convert CSV or TSV files (plain, .gz or .zst) or Parquet files to Parquet with typed columns, row " +
			"groups of\n" +
			"a good size, zstd, v2 pages and statistics. Inputs are paths or s3:// URIs. A folder stands for all " +
			"such files below it,\n" +
			"a glob for the files that match. Types of text columns are inferred, dates and times among them (ISO " +
			"8601; UTC, unless\n" +
			"they name a zone). Criteo's click logs are known by their layout. The output appears only when it is " +
			"whole.",
		Example: "  penstock convert clicks.tsv --out data --hex 'cat_*'\n  penstock convert logs/ --out data\n" +
			"  penstock convert day_*.tsv.gz --out criteo --columns criteo --file-rows 5000000\n" +
			"  penstock convert log.csv --out log.parquet --columns user:int64,clicked:bool,score:float32\n" +
			"  penstock convert old/*.parquet --out new --row-group-rows 100000\n" +
			"  penstock convert 's3://logs/day=1/*.csv.gz' --out day=1 --storage-config stores.yaml --storage logs",
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Output, "out", "", "directory to make, or one .parquet file (required)")
	flags.StringVar(&o.Delimiter, "delimiter", "",
		"delimiter of text files (default: a tab for .tsv, a comma for .csv)")
	flags.BoolVar(&o.NoHeader, "no-header", false,
		"text files begin with data, not with the columns' names; --no-header=false: with names, though they look "+
			"like data")
	flags.StringSliceVar(&o.Columns, "columns", nil,
		"columns as name:type (bool, int32, int64, float32, float64, string, binary, hex, date, timestamp, "+
			"timestamp[ns]), or a preset: criteo")
	flags.StringSliceVar(&o.Hex, "hex", nil, "columns, or globs of them, with hexadecimal hashes that become int64")
	flags.IntVar(&o.InferRows, "infer-rows", 0, "rows to infer types from (default: 10000)")
	flags.Int64Var(&o.RowGroupRows, "row-group-rows", 0, "most rows of a row group (default: 65536)")
	flags.Var(&rowGroup, "row-group-bytes", "most bytes of a row group in memory")
	flags.Int64Var(&o.FileRows, "file-rows", 0, "rows of each file (default: all in one)")
	flags.BoolVar(&o.Overwrite, "overwrite", false, "replace an output that exists")
	stores.Register(flags)
	flags.StringVar(&o.Profile, "storage", "", "storage profile of the inputs (default: default)")
	_ = cmd.MarkFlagRequired("out") // the flag exists
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		if o.Store, err = stores.Open(); err != nil {
			return err
		}
		defer o.Store.Close()
		o.Inputs, o.RowGroupBytes = args, int64(rowGroup)
		o.Progress = func(p convert.Progress) {
			cli.Status(os.Stderr, "%s rows, %s of %s read", humanize.Comma(p.Rows), humanize.IBytes(uint64(p.Read)),
				humanize.IBytes(uint64(p.BytesToRead)))
		}
		o.Header = cmd.Flags().Changed("no-header") && !o.NoHeader
		result, err := convert.Run(cmd.Context(), o)
		cli.Status(os.Stderr, "")
		if err != nil {
			return err
		}
		if output == "json" {
			return cli.PrintJSON(cmd.OutOrStdout(), result)
		}
		for _, note := range result.Notes {
			fmt.Fprintln(cmd.OutOrStdout(), note)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s, %s in %s:\n  %s\n%s:\n  %s\n",
			humanize.Comma(result.Rows), english.PluralWord(int(result.Rows), "row", ""),
			humanize.IBytes(uint64(result.Bytes)), english.Plural(len(result.Files), "file", ""),
			strings.Join(result.Files, "\n  "), english.Plural(len(result.Columns), "column", ""),
			strings.Join(result.Columns, "\n  "))
		return err
	}
	return cli.Setup(cmd)
}
