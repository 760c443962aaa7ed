package iceberg

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// manifestFile is an entry of a manifest list.
type manifestFile struct {
	Path     string `avro:"manifest_path"`
	Spec     int    `avro:"partition_spec_id"`
	Content  int    `avro:"content"`
	Sequence int64  `avro:"sequence_number"`
	Added    *int   `avro:"added_files_count"`
	Existing *int   `avro:"existing_files_count"`
	Key      []byte `avro:"key_metadata"`
}

// entry is one of a manifest.
type entry struct {
	Status   int      `avro:"status"`
	Sequence *int64   `avro:"sequence_number"`
	File     dataFile `avro:"data_file"`
}

// dataFile is a file of data, or one that tells which rows are deleted.
type dataFile struct {
	Content    int            `avro:"content"`
	Path       string         `avro:"file_path"`
	Format     string         `avro:"file_format"`
	Partition  map[string]any `avro:"partition"`
	Rows       int64          `avro:"record_count"`
	Size       int64          `avro:"file_size_in_bytes"`
	Sizes      []count        `avro:"column_sizes"`
	Values     []count        `avro:"value_counts"`
	Nulls      []count        `avro:"null_value_counts"`
	Lower      []extreme      `avro:"lower_bounds"`
	Upper      []extreme      `avro:"upper_bounds"`
	Key        []byte         `avro:"key_metadata"`
	Referenced *string        `avro:"referenced_data_file"`
	Offset     *int64         `avro:"content_offset"`
	Length     *int64         `avro:"content_size_in_bytes"`

	uri       string
	sequence  int64 // its data sequence number
	spec      *partitionSpec
	partition []partitionValue // by the ids of the spec's fields
	place     string           // the spec and the partition, equal where both are
}

type count = keyed[int64]

type extreme = keyed[[]byte]

// keyed is an entry of a map whose keys are ids of columns, as lists have it.
type keyed[T any] struct {
	ID    int `avro:"key"`
	Value T   `avro:"value"`
}

// find looks for the entry of a column.
func find[T any](all []keyed[T], id int) (value T, ok bool) {
	for i := range all {
		if all[i].ID == id {
			return all[i].Value, true
		}
	}
	return value, false
}

type partitionValue struct {
	id    int
	value any // nil, int64, float64, bool, string or []byte
}

// What numbers in lists and manifests stand for.
const (
	ofData    = 0 // content of a manifest
	ofDeletes = 1

	added   = 1 // status of an entry
	deleted = 2

	positions = 1 // content of a file of deleted rows
	equality  = 2
)

func listFields() wanted {
	return wanted{
		"manifest_path": nil, "partition_spec_id": nil, "content": nil, "sequence_number": nil,
		"added_files_count": nil, "existing_files_count": nil, "key_metadata": nil,
	}
}

func entryFields() wanted {
	return wanted{"status": nil, "sequence_number": nil, "data_file": {
		"content": nil, "file_path": nil, "file_format": nil, "partition": nil, "record_count": nil,
		"file_size_in_bytes": nil, "column_sizes": nil, "value_counts": nil, "null_value_counts": nil,
		"lower_bounds": nil, "upper_bounds": nil, "key_metadata": nil, "referenced_data_file": nil,
		"content_offset": nil, "content_size_in_bytes": nil,
	}}
}

// files are the live ones of a snapshot: those of data, and those that delete rows of them.
type files struct{ data, deletes []*dataFile }

// files reads a snapshot's manifests.
func (r *reader) files(ctx context.Context, s *snapshot) (*files, error) {
	manifests, err := r.manifests(ctx, s)
	if err != nil {
		return nil, err
	}
	found := make([][]*dataFile, len(manifests))
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range manifests {
		g.Go(func() (err error) {
			found[i], err = r.manifest(within, &manifests[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := &files{}
	for i, m := range manifests {
		if m.Content == ofDeletes {
			all.deletes = append(all.deletes, found[i]...)
		} else {
			all.data = append(all.data, found[i]...)
		}
	}
	return all, nil
}

// manifests are those of a snapshot.
func (r *reader) manifests(ctx context.Context, s *snapshot) ([]manifestFile, error) {
	if s.Key != "" {
		return nil, errors.New("it is encrypted, which is not read: write its rows to another table")
	}
	if s.List == "" {
		all := make([]manifestFile, len(s.Manifests))
		for i, path := range s.Manifests {
			all[i].Path, all[i].Spec = path, -1
		}
		return all, nil
	}
	uri, content, err := r.named(ctx, s.List, 1)
	if err != nil {
		return nil, err
	}
	all, err := parseList(content, r.memory.Keep)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	return all, nil
}

// parseList reads a manifest list, without manifests of which all files are gone.
func parseList(content []byte, keep func(bytes int64) error) (all []manifestFile, err error) {
	err = records(content, listFields(), []string{"manifest_path", "partition_spec_id"}, func(m *manifestFile) error {
		switch {
		case m.Path == "":
			return damaged(errors.New("a manifest has no path"))
		case m.Content != ofData && m.Content != ofDeletes:
			return fmt.Errorf("%s has the content %d, which is not known", m.Path, m.Content)
		case len(m.Key) > 0:
			return fmt.Errorf("%s is encrypted, which is not read: write the table's rows to another table", m.Path)
		case m.Added != nil && m.Existing != nil && *m.Added == 0 && *m.Existing == 0:
			return nil
		}
		all = append(all, *m)
		return keep(fileBytes + int64(len(m.Path)))
	})
	return all, err
}

// named reads a file by its path in the metadata.
func (r *reader) named(ctx context.Context, path string, atOnce int64) (uri string, content []byte, err error) {
	if uri, err = r.root.resolve(path); err != nil {
		return "", nil, err
	}
	content, err = r.read(ctx, uri, atOnce)
	return uri, content, err
}

// manifest reads a manifest's live files.
func (r *reader) manifest(ctx context.Context, of *manifestFile) ([]*dataFile, error) {
	uri, content, err := r.named(ctx, of.Path, atOnce)
	if err != nil {
		return nil, err
	}
	m := &manifest{manifestFile: of, reader: r}
	if err := m.parse(content); err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	return m.found, nil
}

// manifest is one that is read.
type manifest struct {
	*manifestFile
	*reader
	spec   *partitionSpec
	fields []partitionColumn
	found  []*dataFile
}

// partitionColumn is where the records of a manifest have the value of a field of partitions.
type partitionColumn struct {
	id   int
	name string
}

func (m *manifest) parse(content []byte) error {
	header, err := headerOf(content)
	if err != nil {
		return damaged(err)
	}
	id := m.Spec
	if id < 0 { // no list says it
		if id, err = strconv.Atoi(string(header["partition-spec-id"])); err != nil {
			id = 0
		}
	}
	if m.spec, err = m.metadata.spec(id); err != nil {
		return err
	}
	if m.fields, err = partitionColumns(header["avro.schema"]); err != nil {
		return damaged(err)
	}
	return records(content, entryFields(), []string{"status", "data_file"}, m.add)
}

// partitionColumns finds the fields of partitions in a manifest's schema, by their ids.
func partitionColumns(schema []byte) (all []partitionColumn, err error) {
	type field struct {
		Name string `json:"name"`
		ID   int    `json:"field-id"`
		Type json.RawMessage
	}
	at := json.RawMessage(schema)
	for _, name := range []string{"data_file", "partition", ""} {
		var record struct {
			Fields []field `json:"fields"`
		}
		if err := json.Unmarshal(at, &record); err != nil {
			return nil, fmt.Errorf("its schema: %w", err)
		}
		if name == "" {
			for _, f := range record.Fields {
				all = append(all, partitionColumn{f.ID, f.Name})
			}
			break
		}
		i := slices.IndexFunc(record.Fields, func(f field) bool { return f.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("its schema has no field %s", name)
		}
		at = record.Fields[i].Type
	}
	slices.SortFunc(all, func(a, b partitionColumn) int { return a.id - b.id })
	return all, nil
}

const (
	fileBytes  = 512 // what it takes to know of a file, beside its path and metrics
	valueBytes = 40  // and of a value of its metrics
)

// size is about the memory that an entry takes.
func (d *dataFile) size() int64 {
	n := fileBytes + len(d.Path) + valueBytes*(len(d.Sizes)+len(d.Values)+len(d.Nulls)+2*len(d.Partition))
	for _, bounds := range [][]extreme{d.Lower, d.Upper} {
		for _, b := range bounds {
			n += valueBytes + len(b.Value)
		}
	}
	return int64(n)
}

// add takes an entry, unless its file was removed.
func (m *manifest) add(e *entry) (err error) {
	if e.Status == deleted {
		return nil
	}
	d := &e.File
	if err := m.check(d); err != nil {
		return err
	}
	switch {
	case e.Sequence != nil:
		d.sequence = *e.Sequence
	case e.Status == added || m.Sequence == 0:
		d.sequence = m.Sequence
	default:
		return damaged(fmt.Errorf("%s has no sequence number", d.Path))
	}
	if d.uri, err = m.root.resolve(d.Path); err != nil {
		return err
	}
	d.spec = m.spec
	if err := d.setPartition(m.fields); err != nil {
		return err
	}
	if m.Content == ofDeletes || d.Values != nil { // which tells as well which columns a file has
		d.Sizes = nil
	}
	m.found = append(m.found, d)
	return m.memory.Keep(d.size())
}

func (m *manifest) check(d *dataFile) error {
	switch isDelete := m.Content == ofDeletes; {
	case d.Path == "":
		return damaged(errors.New("a file has no path"))
	case d.Rows < 0 || d.Size < 0:
		return damaged(fmt.Errorf("%s has %d rows in %d bytes", d.Path, d.Rows, d.Size))
	case isDelete && d.Content != positions && d.Content != equality, !isDelete && d.Content != ofData:
		return damaged(fmt.Errorf("%s has the content %d in a manifest of content %d", d.Path, d.Content, m.Content))
	case len(d.Key) > 0:
		return fmt.Errorf("%s is encrypted, which is not read: write the table's rows to another table", d.Path)
	case d.isVector(), isDelete && d.Content == equality: // which is refused if it matters
	case !strings.EqualFold(d.Format, "parquet"):
		return fmt.Errorf("%s is a file of %.40s, and Parquet alone is read: have the table's files rewritten as that "+
			"(write.format.default=parquet, then rewrite_data_files)", d.Path, strings.ToUpper(d.Format))
	}
	return nil
}

// isVector reports whether a file of deleted rows is a deletion vector.
func (d *dataFile) isVector() bool {
	return d.Content == positions && strings.EqualFold(d.Format, "puffin")
}

// setPartition takes the values of a partition from the record that has them by name.
func (d *dataFile) setPartition(fields []partitionColumn) error {
	var place strings.Builder
	place.WriteString(strconv.Itoa(d.spec.ID))
	for _, f := range fields {
		v, text, err := plainValue(d.Partition[f.name])
		if err != nil {
			return damaged(fmt.Errorf("%s: the partition field %s: %w", d.Path, f.name, err))
		}
		d.partition = append(d.partition, partitionValue{f.id, v})
		fmt.Fprintf(&place, "|%d=%s", f.id, text)
	}
	d.Partition, d.place = nil, place.String()
	return nil
}

// plainValue writes a value of a partition in one of few types, and as a text that differs where values do.
func plainValue(v any) (any, string, error) {
	switch v := v.(type) {
	case nil:
		return nil, "null", nil
	case bool:
		return v, strconv.FormatBool(v), nil
	case int32:
		return int64(v), strconv.FormatInt(int64(v), 10), nil
	case int64:
		return v, strconv.FormatInt(v, 10), nil
	case float32:
		return float64(v), strconv.FormatFloat(float64(v), 'g', -1, 64), nil
	case float64:
		return v, strconv.FormatFloat(v, 'g', -1, 64), nil
	case string:
		return v, strconv.Quote(v), nil
	case []byte:
		return v, hex.EncodeToString(v), nil
	}
	return nil, "", fmt.Errorf("it is of the type %T", v)
}
