package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables"
	"github.com/penstock-ml/penstock/internal/terminal"
	"github.com/penstock-ml/penstock/worker/excluded"
)

const (
	// describedAtOnce is how many files `penstock show` describes in parallel.
	describedAtOnce = 16
	// footersAtOnce bounds the bytes of their footers.
	footersAtOnce = 64 << 20
)

// shown is what `penstock show` tells of a dataset.
type shown struct {
	URI       string        `json:"uri"`    // of a table with the version
	Files     int           `json:"files"`  // that were looked at
	Listed    int           `json:"listed"` // files that there are
	Bytes     int64         `json:"bytes"`
	RowGroups int           `json:"row_groups"`
	Rows      int64         `json:"rows"`
	Columns   []shownColumn `json:"columns"`
	Head      []row         `json:"head"`
	// LeftOut is what of the folders is no data.
	LeftOut storage.LeftOut `json:"left_out,omitzero"`
	// Notes are what is worth knowing of a table.
	Notes []string `json:"notes,omitempty"`

	extent string // what a row group is called
}

// Show returns `penstock show`.
func Show() *cobra.Command {
	var stores cli.StorageFlags
	var d shower
	var text string
	cmd := &cobra.Command{
		Use:   "show URI",
		Short: "Show a dataset's columns, statistics and first rows",
		Long: "Show what a dataset holds, without a spec and without a fleet: its columns with their types and " +
			"shapes, the layouts\n" +
			"that take each, nulls, least and greatest values as the files tell them, and the first rows. All " +
			"files are looked at,\n" +
			"and of the first rows no more is read than they need. --files N looks at the first N files alone.",
		Example: `  penstock show data/
  penstock show s3://bucket/table/ --head 20
  penstock show gs://bucket/table/
  penstock show hf://datasets/ORG/NAME --split train --subset en
  penstock show delta+s3://bucket/table@v12
  penstock show iceberg+s3://bucket/table@release-1
  penstock show data/part-00000.parquet --output json
  penstock show raw/ --format '{name: csv, delimiter: ;}'`,
		Args: cobra.ExactArgs(1),
	}
	stores.Register(cmd.Flags())
	cmd.Flags().IntVar(&d.head, "head", 5, "rows to show")
	cmd.Flags().IntVar(&d.maxFiles, "files", 0, "look at so many files at most (default: all)")
	cmd.Flags().StringVar(&d.profile, "storage", "",
		"storage profile, as a spec's dataset.storage (default: the one named default)")
	cmd.Flags().StringVar(&text, "format", "",
		"format of the files, as a spec's dataset.format: a name or a mapping (default: by their names)")
	splitFlags(cmd.Flags(), &d.split, &d.subset)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		for flag, n := range map[string]int{"head": d.head, "files": d.maxFiles} {
			if n < 0 {
				return fmt.Errorf("--%s: want 0 or more, found %d", flag, n)
			}
		}
		if d.how, err = formatOf(text); err != nil {
			return err
		}
		st, err := stores.Open()
		if err != nil {
			return err
		}
		d.st = st
		s, err := d.show(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if output == "json" {
			return cli.PrintJSON(cmd.OutOrStdout(), s)
		}
		return s.print(cmd.OutOrStdout())
	}
	return cli.Setup(cmd)
}

// shower looks at datasets of a storage.
type shower struct {
	st       storage.Storage
	profile  string
	how      *pb.Format // nil: the files tell
	split    string     // of a folder, whose files are looked at
	subset   string     // of the split
	maxFiles int        // files to look at; 0: all
	head     int        // rows to show
	indexes  *beside.Finder
	table    *tables.Table // nil: the dataset is none
	deleted  *excluded.Store
}

func (d *shower) show(ctx context.Context, uri string) (*shown, error) {
	d.indexes = beside.New(formats.NewRoom(footersAtOnce).Enter)
	listing, err := tables.Tell(ctx, d.st, &pb.Dataset{
		Uri: []string{uri}, Storage: d.profile, Format: d.how, Split: d.split, Subset: d.subset,
	})
	if err != nil {
		return nil, err
	}
	files, left := listing.Files, listing.LeftOut
	d.ofTable(listing.Table)
	listed := len(files)
	if d.maxFiles > 0 {
		files = files[:min(d.maxFiles, listed)]
	}
	all, err := d.describe(ctx, files, &left)
	if err != nil {
		return nil, err
	}
	if len(files) == listed {
		left.Unknown = storage.Names{}
	}
	out := &shown{URI: uri, Files: len(all), Listed: listed - len(files) + len(all), Head: []row{}, LeftOut: left}
	if d.table != nil {
		out.URI, out.Notes = d.table.URI, d.table.Notes
	}
	for _, f := range all {
		out.Bytes += f.file.GetSize()
		out.Rows += f.rows - f.deleted
		out.RowGroups += f.extents
		out.extent = f.extent
	}
	schema, err := d.schema(all)
	if err != nil {
		return nil, err
	}
	for _, c := range schema.Columns {
		shown := describe(c, all)
		d.roundBounds(c, &shown)
		out.Columns = append(out.Columns, shown)
	}
	for _, f := range all {
		if len(out.Head) >= d.head {
			break
		}
		rows, err := d.rows(ctx, f, schema, d.head-len(out.Head))
		if err != nil {
			return nil, err
		}
		out.Head = append(out.Head, rows...)
	}
	return out, nil
}

// schema is that of all files.
func (d *shower) schema(all []looked) (spec.Schema, error) {
	if d.table != nil {
		return d.table.Columns, nil
	}
	var parts []spec.FileSchema
	for _, f := range all {
		parts = append(parts, spec.FileSchema{File: f.file.GetUri(), Schema: f.columns.Schema})
	}
	return spec.Merge(parts)
}

// looked is what is kept of a file that was looked at: its description may take much more.
type looked struct {
	file    *pb.File
	first   format.File // its first extents, if they were found by a scan; nil: it is described again
	columns format.Columns
	known   []summary // of the columns
	rows    int64
	deleted int64        // of these, by the table
	gone    excluded.Set // which
	extents int
	extent  string
}

// describe looks at all files, of which those that turn out to be of no format are left out.
func (d *shower) describe(ctx context.Context, files []*pb.File, left *storage.LeftOut) ([]looked, error) {
	out, foreign := make([]looked, len(files)), make([]error, len(files))
	room := formats.NewRoom(footersAtOnce)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(describedAtOnce)
	for i, f := range files {
		cli.Status(os.Stderr, "files %d of %d", i, len(files))
		group.Go(func() error {
			take, leave := room.Enter(ctx)
			defer leave()
			f, err := d.identified(ctx, f)
			if err != nil {
				return err
			}
			holds, err := formats.LoadIndexed(ctx, d.st, d.profile, f, d.how, d.indexes, take)
			if err == nil {
				out[i], err = d.look(ctx, f, holds)
			}
			if err == nil && i < d.head { // files behind these hardly have rows that are shown
				out[i].first, err = firstOf(holds, int64(d.head))
			}
			if formats.IsForeign(f, err) {
				foreign[i], err = err, nil
			}
			return err
		})
	}
	err := group.Wait()
	cli.Status(os.Stderr, "")
	for _, why := range foreign {
		if why != nil {
			left.Foreign.Add(why.Error())
		}
	}
	out = slices.DeleteFunc(out, func(f looked) bool { return f.file == nil })
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("none of %s is of a format that can be read: %s",
			english.Plural(len(files), "file", ""), &left.Foreign)
	}
	return out, err
}

func (s *shown) print(out io.Writer) error {
	of := ""
	if s.Files < s.Listed {
		of = fmt.Sprintf("the first %d of %s: ", s.Files, english.Plural(s.Listed, "file", ""))
	}
	terminal.Printf(out, "%s: %s%s %s in %s and %s, %s\n\n", s.URI, of, humanize.Comma(s.Rows),
		english.PluralWord(int(s.Rows), "row", ""),
		english.Plural(s.Files, "file", ""), english.Plural(s.RowGroups, s.extent, ""),
		humanize.IBytes(uint64(s.Bytes)))
	t := terminal.Table(out)
	fmt.Fprintln(t, "COLUMN\tTYPE\tLAYOUTS\tSTORED\tNULLS\tMIN\tMAX")
	for _, c := range s.Columns {
		terminal.Printf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.kind(), strings.Join(c.Layouts, " "),
			humanize.IBytes(uint64(c.Bytes)), count(c.Nulls), c.text(c.Min), c.text(c.Max))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Head) > 0 {
		terminal.Printf(out, "\nfirst %s:\n", english.Plural(len(s.Head), "row", ""))
	}
	for _, r := range s.Head {
		fmt.Fprintln(out, " ", strings.Join(r.fields(), " "))
	}
	return errors.Join(writeLines(out, "table", s.Notes), writeLines(out, "listing", s.LeftOut.Words()))
}

// count is a number, or that it is not known.
func count(n *int64) string {
	if n == nil {
		return "?"
	}
	return humanize.Comma(*n)
}
