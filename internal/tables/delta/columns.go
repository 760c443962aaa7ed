package delta

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// columns are those leaves of a checkpoint that its readers need, each nil if the file lacks it.
type columns struct {
	all []*column

	path, size, stats, rows, keys, values                 *column
	vector                                                vectorColumns
	removed                                               *column
	removedVector                                         vectorColumns
	provider, schema, partitions, configKeys, configTexts *column
	reader, features                                      *column
	sidecar, version                                      *column
}

type vectorColumns struct{ storage, place, offset, size, cardinality *column }

// columnsOf finds them.
func columnsOf(of *parquet.Column) (*columns, error) {
	c := &columns{}
	wanted := map[string]**column{
		"add.path": &c.path, "add.size": &c.size, "add.stats": &c.stats, "add.stats_parsed.numRecords": &c.rows,
		"add.partitionValues.key": &c.keys, "add.partitionValues.value": &c.values,
		"remove.path": &c.removed, "metaData.format.provider": &c.provider, "metaData.schemaString": &c.schema,
		"metaData.partitionColumns": &c.partitions, "metaData.configuration.key": &c.configKeys,
		"metaData.configuration.value": &c.configTexts, "protocol.minReaderVersion": &c.reader,
		"protocol.readerFeatures": &c.features, "sidecar.path": &c.sidecar, "checkpointMetadata.version": &c.version,
	}
	for prefix, v := range map[string]*vectorColumns{
		"add.deletionVector.": &c.vector, "remove.deletionVector.": &c.removedVector,
	} {
		wanted[prefix+"storageType"], wanted[prefix+"pathOrInlineDv"] = &v.storage, &v.place
		wanted[prefix+"offset"], wanted[prefix+"sizeInBytes"] = &v.offset, &v.size
		wanted[prefix+"cardinality"] = &v.cardinality
	}
	for leaf := range leaves(of, 0) {
		name, listed := simpleName(leaf.column.Path())
		slot, ok := wanted[name]
		if !ok || *slot != nil {
			continue
		}
		if err := leaf.check(listed); err != nil {
			return nil, damaged(err)
		}
		*slot = &column{
			name: strings.Join(leaf.column.Path(), "."), leaf: int(leaf.column.Index()), isText: leaf.isText(),
			full: leaf.column.MaxDefinitionLevel(), entry: leaf.entry,
		}
		c.all = append(c.all, *slot)
	}
	return c, nil
}

// simpleName is a column's without the levels of lists and maps, of which writers have several forms.
func simpleName(path []string) (name string, listed bool) {
	if len(path) > 2 {
		switch group := path[0] + "." + path[1]; group {
		case "metaData.partitionColumns", "protocol.readerFeatures":
			return group, true
		case "add.partitionValues", "metaData.configuration":
			return group + "." + path[len(path)-1], true
		}
	}
	return strings.Join(path, "."), false
}

// leaf is a column of a file with the definition level from which on it has an entry; 0: it is in no list.
type leaf struct {
	column *parquet.Column
	entry  int
}

func leaves(of *parquet.Column, entry int) func(func(leaf) bool) {
	return func(yield func(leaf) bool) {
		if of.Repeated() {
			entry = of.MaxDefinitionLevel()
		}
		if of.Leaf() {
			yield(leaf{of, entry})
			return
		}
		for _, child := range of.Columns() {
			for l := range leaves(child, entry) {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// isText tells columns of text from those of whole numbers.
func (l leaf) isText() bool {
	switch l.column.Name() {
	case "size", "numRecords", "offset", "sizeInBytes", "cardinality", "minReaderVersion", "version":
		return false
	}
	return true
}

// check fails if a column is none of the kind that it should be.
func (l leaf) check(listed bool) error {
	kind, repeated := l.column.Type().Kind(), l.column.MaxRepetitionLevel()
	fits := kind == parquet.ByteArray
	if !l.isText() {
		fits = kind == parquet.Int32 || kind == parquet.Int64
	}
	if !fits || repeated > 1 || repeated == 1 != listed {
		name := strings.Join(l.column.Path(), ".")
		return fmt.Errorf("its column %s is %v, in %d lists", name, l.column.Type(), repeated)
	}
	return nil
}

// column reads one, row by row.
type column struct {
	name   string
	leaf   int
	isText bool
	full   int // definition level of values
	entry  int

	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    [256]parquet.Value
	at, n  int

	row []cell // of the row that was read last
}

// cell is an entry of a row: a value or null.
type cell struct {
	null bool
	text string
	n    int64
}

func (c *column) open(chunk parquet.ColumnChunk) {
	c.pages, c.page, c.values, c.at, c.n = chunk.Pages(), nil, nil, 0, 0
}

// fill reads more values. It fails with io.EOF at the end.
func (c *column) fill() error {
	for idle := 0; c.at == c.n; {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buf[:])
		c.at, c.n = 0, n
		switch {
		case errors.Is(err, io.EOF):
			if c.values = nil; n == 0 {
				parquet.Release(c.page)
			}
		case err != nil:
			return err
		case n == 0:
			if idle++; idle == 100 {
				return fmt.Errorf("a page of %s has fewer values than it says", c.name)
			}
		}
	}
	return nil
}

// nextRow reads the cells of a row.
func (c *column) nextRow() error {
	c.row = c.row[:0]
	for first := true; ; first = false {
		err := c.fill()
		if errors.Is(err, io.EOF) && !first {
			return nil
		}
		if err != nil {
			return fmt.Errorf("column %s ends before its rows do: %w", c.name, err)
		}
		v := &c.buf[c.at]
		if first != (v.RepetitionLevel() == 0) {
			if first {
				return fmt.Errorf("a row of column %s begins inside a list", c.name)
			}
			return nil
		}
		c.at++
		if level := v.DefinitionLevel(); level >= c.entry {
			c.row = append(c.row, c.cell(v, level == c.full))
		}
		if c.entry == 0 {
			return nil
		}
	}
}

func (c *column) cell(v *parquet.Value, has bool) cell {
	switch {
	case !has || v.IsNull():
		return cell{null: true}
	case c.isText:
		return cell{text: string(v.ByteArray())}
	case v.Kind() == parquet.Int32:
		return cell{n: int64(v.Int32())}
	}
	return cell{n: v.Int64()}
}

// text is the value of a column without lists; "": null.
func (c *column) text() string {
	if !c.has() {
		return ""
	}
	return c.row[0].text
}

func (c *column) number() int64 {
	if !c.has() {
		return 0
	}
	return c.row[0].n
}

// optional is the number, nil for null.
func (c *column) optional() *int64 {
	if !c.has() {
		return nil
	}
	n := c.row[0].n
	return &n
}

func (c *column) has() bool { return c != nil && len(c.row) > 0 && !c.row[0].null }

// texts are those of a list.
func (c *column) texts() (all []string) {
	if c == nil {
		return nil
	}
	for _, cell := range c.row {
		all = append(all, cell.text)
	}
	return all
}

// action is the row that was read last; nil: it is none of those that are needed.
func (c *columns) action() (*action, error) {
	switch {
	case c.path.has():
		values, err := pairs(c.keys, c.values)
		return &action{Add: &add{
			Path: c.path.text(), Partitions: values, Size: c.size.number(), Stats: c.stats.text(),
			Vector: c.vector.vector(), rows: c.rows.optional(),
		}}, err
	case c.removed.has():
		return &action{Remove: &remove{Path: c.removed.text(), Vector: c.removedVector.vector()}}, nil
	case c.schema.has():
		m := &metadata{Schema: c.schema.text(), Partitions: c.partitions.texts()}
		m.Format.Provider = c.provider.text()
		var err error
		m.Config, err = pairs(c.configKeys, c.configTexts)
		return &action{MetaData: m}, err
	case c.reader.has():
		return &action{Protocol: &protocol{Reader: int(c.reader.number()), Features: c.features.texts()}}, nil
	case c.sidecar.has():
		return &action{Sidecar: &sidecar{Path: c.sidecar.text()}}, nil
	case c.version.has():
		return &action{Checkpoint: &checkpointMetadata{Version: c.version.number()}}, nil
	}
	return nil, nil
}

func (v *vectorColumns) vector() *vector {
	if !v.storage.has() {
		return nil
	}
	return &vector{
		Storage: v.storage.text(), Place: v.place.text(), Offset: v.offset.optional(), Size: v.size.number(),
		Cardinality: v.cardinality.number(),
	}
}

// pairs are the entries of a map.
func pairs(keys, values *column) (map[string]*string, error) {
	if keys == nil && values == nil {
		return nil, nil
	}
	if keys == nil || values == nil || len(keys.row) != len(values.row) {
		return nil, errors.New("a map has not as many values as keys")
	}
	all := make(map[string]*string, len(keys.row))
	for i, key := range keys.row {
		all[key.text] = nil
		if !values.row[i].null {
			text := values.row[i].text
			all[key.text] = &text
		}
	}
	return all, nil
}
