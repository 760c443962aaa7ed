package iceberg

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// reader reads a version of a table.
type reader struct {
	*loader
	metadata *metadata
	root     root
}

// snapshot is what a version consists of.
func (r *reader) snapshot(ctx context.Context, v version) (*table.Snapshot, error) {
	t := &state{reader: r}
	names, err := parseMapping(r.metadata.Properties[nameMapping])
	if err != nil {
		return nil, err
	}
	of, err := r.metadata.schema(v.schema)
	if err != nil {
		return nil, err
	}
	if t.schema, err = newSchema(of, names); err != nil {
		return nil, err
	}
	all, err := r.files(ctx, v.snapshot)
	if err != nil {
		return nil, fmt.Errorf("the snapshot %d: %w", v.ID, err)
	}
	if t.deleted, err = r.excluded(all); err != nil {
		return nil, fmt.Errorf("the snapshot %d: %w", v.ID, err)
	}
	t.partitions(all.data)
	s := &table.Snapshot{Version: v.String(), Root: r.root.uri, Notes: t.schema.notes}
	for _, key := range t.keys {
		s.Partitions = append(s.Partitions, key.Name)
	}
	fields := make([]arrow.Field, len(t.schema.columns))
	for i, c := range t.schema.columns {
		fields[i] = c.Field
	}
	s.Schema = arrow.NewSchema(fields, nil)
	if s.Files, err = t.files(all.data); err != nil {
		return nil, fmt.Errorf("the snapshot %d: %w", v.ID, err)
	}
	if n := len(t.deleted); n > 0 {
		s.Notes = append(s.Notes, english.Plural(n, "file has", "files have")+" deleted rows")
	}
	return s, nil
}

// state is that of a version whose metadata is all there.
type state struct {
	*reader
	schema  *schema
	keys    []read // the columns of which each file has one value
	deleted exclusions
}

// partitions finds the columns by whose values all files are partitioned. Files lack them if they were written by other
// engines, before the table was one of Iceberg: so the values that manifests have are taken.
func (t *state) partitions(data []*dataFile) {
	specs := map[*partitionSpec]bool{}
	for _, d := range data {
		specs[d.spec] = true
	}
	for _, c := range t.schema.columns {
		if len(specs) == 0 || c.typ == "" || !c.typ.isConstant() {
			continue
		}
		everywhere := true
		for s := range specs {
			everywhere = everywhere && s.identity(c.id) > 0
		}
		if everywhere {
			t.keys = append(t.keys, c)
		}
	}
}

// identity is the id of the field of partitions that has a column's own values; 0: there is none.
func (s *partitionSpec) identity(column int) int {
	for _, f := range s.Fields {
		if f.Source == column && f.Transform == "identity" {
			return f.ID
		}
	}
	return 0
}

// files turns data files into those of a table, sorted by URI.
func (t *state) files(data []*dataFile) ([]table.File, error) {
	all := make([]table.File, 0, len(data))
	for i, d := range data {
		f, err := t.file(d)
		if err != nil {
			return nil, fmt.Errorf("its file %.200s: %w", d.Path, err)
		}
		all, data[i] = append(all, f), nil
	}
	slices.SortFunc(all, func(a, b table.File) int { return cmp.Compare(a.Uri, b.Uri) })
	for i := range all {
		if all[i].Index = uint32(i); i > 0 && all[i].Uri == all[i-1].Uri {
			return nil, fmt.Errorf("it has %s twice, and so its rows: have one of them removed", all[i].Uri)
		}
	}
	return all, nil
}

func (t *state) file(d *dataFile) (table.File, error) {
	if err := t.complete(d); err != nil {
		return table.File{}, err
	}
	f := &pb.File{Uri: d.uri, Size: d.Size, KeysAt: uint32(strings.LastIndexByte(d.uri, '/') + 1)} // no keys in paths
	for _, key := range t.keys {
		v, there := d.value(d.spec.identity(key.id))
		c := &pb.Constant{Name: key.Name}
		var ok bool
		if c.Value, ok = constant(v, key.typ); !ok || !there {
			return table.File{}, damaged(fmt.Errorf("the manifest has the value %.60q of the partition column %s, a %s",
				fmt.Sprint(v), key.Name, key.typ))
		}
		f.Constants = append(f.Constants, c)
	}
	f.Excluded = t.deleted[d]
	d.forget()
	return table.File{File: f, Rows: d.Rows, Stats: t.stats(f, d)}, nil
}

// value is that of a field of partitions.
func (d *dataFile) value(field int) (v any, ok bool) {
	for _, p := range d.partition {
		if p.id == field {
			return p.value, true
		}
	}
	return nil, false
}

// complete refuses a file that may lack a column whose value the manifest has, where other files have it themselves.
func (t *state) complete(d *dataFile) error {
	if t.schema.mapping == nil { // then all files were written by engines that know Iceberg
		return nil
	}
	for _, c := range t.schema.columns {
		isKey := func(key read) bool { return key.id == c.id }
		if d.spec.identity(c.id) == 0 || slices.ContainsFunc(t.keys, isKey) || d.has(c.id) {
			continue
		}
		return fmt.Errorf("it may lack the column %s, by which it is partitioned and other files are not: have the "+
			"table's files rewritten (in Spark CALL system.rewrite_data_files with 'rewrite-all' true)", c.Name)
	}
	return nil
}

// has reports whether a file has a column, by its metrics.
func (d *dataFile) has(column int) bool {
	_, size := find(d.Sizes, column)
	_, values := find(d.Values, column)
	_, nulls := find(d.Nulls, column)
	return size || values || nulls
}

// forget gives up what is not looked at any more.
func (d *dataFile) forget() {
	d.Sizes, d.Values, d.partition, d.spec, d.place, d.Path = nil, nil, nil, nil, "", ""
}

// stats tells what is known of a file's columns.
func (t *state) stats(f *pb.File, d *dataFile) func(string) (filter.Stats, bool) {
	leaves, keys, deletes := t.schema.leaves, t.keys, len(f.Excluded) > 0
	return func(column string) (filter.Stats, bool) {
		for i, c := range f.Constants {
			if c.Name == column {
				return table.ConstantStats(c.Value, string(keys[i].typ), d.Rows)
			}
		}
		if of := leaves[column]; of != nil {
			return d.stats(of, deletes)
		}
		return filter.Stats{}, false
	}
}
