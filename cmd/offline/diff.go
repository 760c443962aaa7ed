package offline

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/cmd/convert"
	"github.com/penstock-ml/penstock/internal/cli"
)

// Diff returns `penstock diff`.
func Diff() *cobra.Command {
	var stores cli.StorageFlags
	var profiles, texts, splits, subsets [2]string
	cmd := &cobra.Command{
		Use:   "diff URI URI",
		Short: "Compare two datasets row by row",
		Long: `Compare the rows of two datasets one by one, in their order: files, folders or globs of any format that convert
reads. They must have the same columns, with the same types, but not in the same order. Where one has keys of a map, or
fields of a struct, as columns, these are compared with the map or the struct of the other. Values are compared bit for
bit, and NaNs are all equal. Rows that differ are counted, the first few are shown, and the command fails.`,
		Example: `  penstock diff old/ new/
  penstock diff s3://lake/raw/part-0.parquet copy.parquet --storage lake
  penstock diff delta+s3://lake/clicks@v12 delta+s3://lake/clicks@v13 --storage lake
  penstock diff copy/ copy/ --split train --other-split test`,
		Args: cobra.ExactArgs(2),
	}
	stores.Register(cmd.Flags())
	cmd.Flags().StringVar(&profiles[0], "storage", "", "storage profile of the first dataset (default: default)")
	cmd.Flags().StringVar(&profiles[1], "other-storage", "",
		"storage profile of the second dataset (default: that of --storage)")
	cmd.Flags().StringVar(&texts[0], "format", "",
		"format of the first dataset, as a spec's dataset.format (default: by the files' names)")
	cmd.Flags().StringVar(&texts[1], "other-format", "", "format of the second dataset")
	splitFlags(cmd.Flags(), &splits[0], &subsets[0])
	cmd.Flags().StringVar(&splits[1], "other-split", "", "split of the second dataset")
	cmd.Flags().StringVar(&subsets[1], "other-subset", "", "subset of the second dataset")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("other-storage") {
			profiles[1] = profiles[0]
		}
		store, err := stores.Open()
		if err != nil {
			return err
		}
		defer store.Close()
		var sides [2]convert.Options
		for i, uri := range args {
			sides[i] = convert.Options{
				Store: store, Profile: profiles[i], Inputs: []string{uri}, Split: splits[i], Subset: subsets[i],
			}
			if sides[i].Format, err = formatOf(texts[i]); err != nil {
				return err
			}
		}
		c, err := convert.Compare(cmd.Context(), sides[0], sides[1])
		if err != nil {
			return err
		}
		if output == "json" {
			err = cli.PrintJSON(cmd.OutOrStdout(), c)
		} else if c.Different == 0 {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "equal: %s %s, %s\n", humanize.Comma(c.Rows),
				english.PluralWord(int(c.Rows), "row", ""), english.Plural(c.Columns, "column", ""))
		}
		if err != nil {
			return err
		}
		return c.Err()
	}
	return cli.Setup(cmd)
}
