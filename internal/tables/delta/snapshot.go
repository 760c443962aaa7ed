package delta

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// snapshot is what the actions amount to.
func (r *replay) snapshot(version int64) (*table.Snapshot, error) {
	if err := r.complete(version); err != nil {
		return nil, err
	}
	if p := r.metadata.Format.Provider; p != "parquet" {
		return nil, fmt.Errorf("its files are of the format %.40q; Parquet alone is read", p)
	}
	mapping := ""
	if r.protocol.maps() {
		mapping = r.metadata.property("delta.columnMapping.mode")
	}
	schema, err := parseSchema(r.metadata.Schema, mapping)
	if err != nil {
		return nil, err
	}
	t := &state{replay: r, schema: schema}
	if err := t.partitions(); err != nil {
		return nil, err
	}
	s := &table.Snapshot{Version: fmt.Sprintf("v%d", version), Partitions: r.metadata.Partitions, Notes: schema.notes}
	fields := make([]arrow.Field, len(schema.columns))
	for i, c := range schema.columns {
		fields[i] = c.Field
	}
	s.Schema = arrow.NewSchema(fields, nil)
	if s.Files, err = t.files(); err != nil {
		return nil, err
	}
	if t.vectors > 0 {
		s.Notes = append(s.Notes, english.Plural(t.vectors, "file has", "files have")+" deleted rows")
	}
	if t.unzoned != "" {
		note := fmt.Sprintf("times of the partition column %s name no zone, and are taken as UTC", t.unzoned)
		s.Notes = append(s.Notes, note)
	}
	return s, nil
}

// state is that of a table whose actions are all there.
type state struct {
	*replay
	schema  *schema
	keys    []read // the columns that it is partitioned by
	vectors int    // files with deletion vectors
	unzoned string
}

// partitions finds the columns that the table is partitioned by.
func (t *state) partitions() error {
	for _, name := range t.metadata.Partitions {
		i := slices.IndexFunc(t.schema.columns, func(c read) bool { return c.Name == name })
		if i < 0 || t.schema.columns[i].typ == "" {
			return fmt.Errorf("it is partitioned by the column %q, which its schema has not, or not as a scalar", name)
		}
		t.keys = append(t.keys, t.schema.columns[i])
		delete(t.schema.leaves, name)
	}
	return nil
}

// files turns what was added into files, sorted by URI.
func (t *state) files() ([]table.File, error) {
	all := make([]table.File, 0, len(t.replay.files))
	for i, a := range t.replay.files {
		f, err := t.file(a)
		if err != nil {
			return nil, fmt.Errorf("the file %.200s of the log: %w", a.Path, err)
		}
		all, t.replay.files[i] = append(all, f), nil
	}
	slices.SortFunc(all, func(a, b table.File) int { return cmp.Compare(a.Uri, b.Uri) })
	for i := range all {
		if all[i].Index = uint32(i); i > 0 && all[i].Uri == all[i-1].Uri {
			return nil, fmt.Errorf("the log has %s twice, with different deletion vectors: it is damaged; restore it",
				all[i].Uri)
		}
	}
	return all, nil
}

func (t *state) file(a *add) (table.File, error) {
	uri, err := t.root.resolve(a.Path)
	if err != nil {
		return table.File{}, err
	}
	f := &pb.File{Uri: uri, Size: a.Size, KeysAt: uint32(strings.LastIndexByte(uri, '/') + 1)} // no keys in paths
	if f.Constants, err = t.constants(a); err != nil {
		return table.File{}, err
	}
	rows := rowsOf(a)
	if a.Vector != nil {
		t.vectors++
		e, err := a.Vector.excluded(t.root)
		if err != nil {
			return table.File{}, err
		}
		if rows >= 0 && e.Rows > rows {
			return table.File{}, fmt.Errorf("%d of its %d rows are deleted: the log is damaged; restore it",
				e.Rows, rows)
		}
		f.Excluded = []*pb.Excluded{e}
	}
	return table.File{File: f, Rows: rows, Stats: t.stats(f, a.Stats, rows)}, nil
}

// constants are the values of the columns that the table is partitioned by.
func (t *state) constants(a *add) ([]*pb.Constant, error) {
	var all []*pb.Constant
	for _, key := range t.keys {
		text, ok := a.Partitions[key.stored]
		if !ok {
			return nil, fmt.Errorf("the log has no value of the partition column %s: it is damaged; restore it",
				key.Name)
		}
		c := &pb.Constant{Name: key.Name}
		if text != nil {
			var err error
			if c.Value, err = valueOf(*text, key.typ); err != nil {
				return nil, fmt.Errorf("the value %.100q of the partition column %s, of type %s: %w",
					*text, key.Name, key.typ, err)
			}
			if key.typ == "timestamp" && c.Value != nil && !zoned(*text) {
				t.unzoned = key.Name
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// stats tells what is known of a file's columns.
func (t *state) stats(f *pb.File, text string, rows int64) func(string) (filter.Stats, bool) {
	leaves, keys, deletes := t.schema.leaves, t.keys, len(f.Excluded) > 0
	return func(column string) (filter.Stats, bool) {
		for i, c := range f.Constants {
			if c.Name == column {
				return table.ConstantStats(c.Value, keys[i].typ, rows)
			}
		}
		if of := leaves[column]; of != nil {
			return stats(text, of, rows, deletes)
		}
		return filter.Stats{}, false
	}
}
