package convert

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/tables"
	"github.com/penstock-ml/penstock/worker/excluded"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Tables are read as sessions read them: the files of a version, with their constants, and without the rows that it has
// deleted.

func isTable(uri string) bool {
	_, ok := spec.ParseTable(uri)
	return ok
}

// ofTable finds the files of the table that is the input.
func (in *inputs) ofTable(ctx context.Context, o *Options) error {
	listed, err := tables.Tell(ctx, o.Store, o.dataset())
	if err != nil {
		return err
	}
	in.table, in.files = listed.Table, listed.Files
	in.notes = append([]string{"read: " + in.table.URI}, in.table.Notes...)
	for _, f := range in.table.Schema.Fields() {
		if hasDecimals(f.Type) && in.staysDecimal(f.Name) == nil {
			in.notes = append(in.notes,
				fmt.Sprintf("column %s is %v, whose decimals are read as sessions read them, as float64", f.Name,
					f.Type))
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(describedAtOnce)
	for i, f := range in.files {
		group.Go(func() (err error) {
			in.files[i], err = tables.Identified(ctx, in.store, in.profile, f)
			return err
		})
	}
	return group.Wait()
}

// hasDecimals reports whether there are decimals in a type.
func hasDecimals(t arrow.DataType) bool {
	return arrow.IsDecimal(t.ID()) ||
		slices.ContainsFunc(children(t), func(f arrow.Field) bool { return hasDecimals(f.Type) })
}

// columnsOfTable are those of the table whose files are read, which need not be looked at for it but for their format.
func (d *decoded) columnsOfTable(ctx context.Context) ([]spec.Column, error) {
	first, err := d.cache.Load(ctx, d.in.store, d.in.profile, d.in.files[0], d.how, nil, nil)
	if err != nil {
		return nil, err
	}
	d.format, d.total = first.Format(), d.in.total()
	return d.in.table.Columns.Columns, nil
}

// exclude finds out which rows of a file its table has deleted.
func (d *decoded) exclude(ctx context.Context, f *pb.File, described format.File) (err error) {
	if d.excluded = nil; len(f.GetExcluded()) > 0 {
		d.excluded, err = d.vectors.Of(ctx, d.in.store, d.in.profile, f, format.Rows(described), excluded.Unbounded{})
	}
	return err
}

// withoutExcluded leaves out rows that the table has deleted; nil: there are no others. Files of tables have no faults.
func (d *decoded) withoutExcluded(rec arrow.Record, first int64) (arrow.Record, error) {
	n := int(rec.NumRows())
	d.chosen = vector.Grow(d.chosen, vector.Words(n))
	if d.excluded.Choose(d.chosen, first, n) == n {
		return rec, nil
	}
	var runs []arrow.Record
	is := func(i int) bool { return d.chosen[i>>6]>>(i&63)&1 == 1 }
	for i := 0; i < n; i++ {
		from := i
		for i < n && is(i) {
			i++
		}
		if i > from {
			runs = append(runs, rec.NewSlice(int64(from), int64(i)))
		}
	}
	return joined(runs)
}
