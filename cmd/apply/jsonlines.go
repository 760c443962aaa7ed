package apply

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

const (
	// maxLine bounds a line, in bytes.
	maxLine = 64 << 20
	// chunkRows and chunkBytes are how many rows are taken at once, and of how many bytes about.
	chunkRows, chunkBytes = 1024, 16 << 20
)

// lines are rows of JSON, one a line.
type lines struct {
	name    string // of where they come from
	from    *bufio.Scanner
	line    int
	rows    int64         // that were read
	trained *arrow.Schema // of the training's data; nil: the first rows decide
	schema  *arrow.Schema // of all rows; nil: none came yet
	wrong   []error       // why columns are not in it
}

func newLines(name string, from io.Reader, trained *arrow.Schema) *lines {
	l := &lines{name: name, from: bufio.NewScanner(from), trained: trained}
	l.from.Buffer(make([]byte, 64<<10), maxLine)
	return l
}

// row is one that was read.
type row struct {
	line   int
	values map[string]any
}

// next is a record of the next rows, with those columns that the first rows had; nil behind the last ones.
func (l *lines) next() (arrow.Record, error) {
	rows, err := l.read()
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if l.schema == nil {
		l.schema = l.schemaOf(rows)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, l.schema)
	for _, r := range rows {
		for i, f := range l.schema.Fields() {
			if err := put(b.Field(i), f.Type, r.values[f.Name]); err != nil {
				return nil, l.at(r.line, fmt.Errorf("column %s: %w", f.Name, err))
			}
		}
	}
	l.rows += int64(len(rows))
	return b.NewRecord(), nil
}

// at says where an error is.
func (l *lines) at(line int, err error) error { return fmt.Errorf("%s line %d: %w", l.name, line, err) }

// read reads rows. Empty lines are none.
func (l *lines) read() (rows []row, err error) {
	for size := 0; len(rows) < chunkRows && size < chunkBytes; {
		if !l.from.Scan() {
			break
		}
		l.line++
		text := bytes.TrimSpace(l.from.Bytes())
		if len(text) == 0 {
			continue
		}
		size += len(text)
		r := row{line: l.line}
		if r.values, err = parse(text); err != nil {
			return nil, l.at(l.line, err)
		}
		rows = append(rows, r)
	}
	switch err := l.from.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, l.at(l.line+1, fmt.Errorf("it has more than %d MiB; give rows as Parquet", maxLine>>20))
	case err != nil:
		return nil, l.at(l.line+1, err)
	}
	return rows, nil
}

// parse reads the object of a row.
func parse(text []byte) (values map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // ids have 64 bits
	if err := d.Decode(&values); err != nil {
		return nil, fmt.Errorf(`%w; want an object such as {"price": 1.5}`, err)
	}
	if _, err := d.Token(); values == nil || !errors.Is(err, io.EOF) {
		return nil, errors.New(`want one object, such as {"price": 1.5}`)
	}
	return values, nil
}

// schemaOf is that of the first rows, where the training's does not say what their columns are. Columns that have
// values of several types are left out: nobody may need them.
func (l *lines) schemaOf(rows []row) *arrow.Schema {
	var names []string
	columns := map[string]*guess{}
	for _, r := range rows {
		for _, name := range slices.Sorted(maps.Keys(r.values)) {
			if columns[name] == nil {
				columns[name] = &guess{}
				names = append(names, name)
			}
			if err := columns[name].see(r.values[name]); err != nil && columns[name].wrong == nil {
				columns[name].wrong = l.at(r.line, fmt.Errorf("column %s: %w", name, err))
			}
		}
	}
	var fields []arrow.Field
	if l.trained != nil {
		for _, f := range l.trained.Fields() {
			if columns[f.Name] != nil {
				fields = append(fields, f)
			}
		}
		return arrow.NewSchema(fields, nil)
	}
	for _, name := range names {
		if wrong := columns[name].wrong; wrong != nil {
			l.wrong = append(l.wrong, wrong)
			continue
		}
		fields = append(fields, arrow.Field{Name: name, Type: columns[name].kind(), Nullable: true})
	}
	return arrow.NewSchema(fields, nil)
}
