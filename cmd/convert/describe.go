package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// columns are those of all files.
func (d *decoded) columns(ctx context.Context) ([]spec.Column, error) {
	if d.in.table != nil {
		return d.columnsOfTable(ctx)
	}
	return d.describe(ctx)
}

// describe looks at all files, leaves out those without an ending that are of no format, and merges their columns: as
// sessions do.
func (d *decoded) describe(ctx context.Context) ([]spec.Column, error) {
	parts := make([]spec.FileSchema, len(d.in.files))
	names, foreign := make([]string, len(d.in.files)), make([]bool, len(d.in.files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(describedAtOnce)
	for i, f := range d.in.files {
		group.Go(func() error {
			described, err := d.cache.Load(ctx, d.in.store, d.in.profile, f, d.how, nil, nil)
			if foreign[i] = formats.IsForeign(f, err); foreign[i] {
				return nil
			}
			if _, unclaimed := errors.AsType[*formats.UnclaimedError](err); unclaimed {
				return fmt.Errorf("%s: neither its name nor its bytes tell its format: give --format, or, of a table "+
					"of text, --delimiter", d.in.name(i))
			}
			if err == nil {
				parts[i], names[i] = format.Schema(f, described), described.Format()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	parts, names = without(parts, foreign), without(names, foreign)
	d.in.leaveOut(foreign)
	d.total = d.in.total()
	if len(names) == 0 {
		return nil, errors.New("none of the files is of a format that is read: give --format")
	}
	for i, name := range names {
		if name != names[0] {
			return nil, differ(d.in, i, names[0], name)
		}
	}
	d.format = names[0]
	schema, err := spec.Merge(parts)
	return schema.Columns, err
}

// chosen are the columns that are named, in that order; without names all.
func chosen(columns []spec.Column, names []string) ([]spec.Column, error) {
	if len(names) == 0 {
		return columns, nil
	}
	var out []spec.Column
	for _, name := range names {
		i := slices.IndexFunc(columns, func(c spec.Column) bool { return c.Name == name })
		if i < 0 {
			var all []string
			for _, c := range columns {
				all = append(all, c.Name)
			}
			return nil, fmt.Errorf("--columns: there is no column %s; there are %s (types are said by --format, as "+
				"in '{name: jsonl, columns: {score: float32}}')", name, some(all))
		}
		out = append(out, columns[i])
	}
	return out, nil
}

// seenInFronts are the formats of which only a file's front tells which columns there are, and how specs call them.
func seenInFronts() map[string]string {
	return map[string]string{"JSON lines": "jsonl", "WebDataset": "webdataset", "TFRecord": "tfrecord"}
}

// unseen tells of columns that files may have behind their fronts; nothing: there are none, or they are chosen.
func unseen(o *Options, src source) []string {
	d, ok := src.(*decoded)
	if !ok || len(o.Columns) > 0 {
		return nil
	}
	name := seenInFronts()[d.format]
	if name == "" || !slices.ContainsFunc(d.in.files, func(f *pb.File) bool {
		return f.GetSize() > format.Head || len(storage.Uncompressed(f.GetUri())) < len(f.GetUri())
	}) {
		return nil
	}
	return []string{fmt.Sprintf("the columns are those that the fronts of files show, about their first %s: one that "+
		"is only behind them is left out, unless --format declares it, as in '{name: %s, columns: {late: int64}}'",
		humanize.IBytes(format.Head), name)}
}

// differ says of an input that it is of another format than the first one.
func differ(in *inputs, i int, first, other string) error {
	return fmt.Errorf("%s is %s, and %s %s: convert them one format at a time", in.name(0), first, in.name(i), other)
}
