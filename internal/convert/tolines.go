package convert

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// linesEncoder writes JSON lines: an object a row, with its columns in their order. Maps are objects of their keys.
type linesEncoder struct {
	to    *bufio.Writer
	names [][]byte // of columns, as JSON
}

func (e *linesEncoder) open() bool { return e.to != nil }

func (e *linesEncoder) begin(to io.Writer, l *layout) error {
	e.to, e.names = bufio.NewWriterSize(to, 1<<20), nil
	for _, c := range l.columns {
		if err := checkLines(c.field.Type); err != nil {
			e.to = nil
			return fmt.Errorf("column %s: %w", c.field.Name, err)
		}
		name, err := json.Marshal(c.field.Name)
		if err != nil {
			return err
		}
		e.names = append(e.names, name)
	}
	return nil
}

func (e *linesEncoder) rowGroup(l *layout, group []arrow.Record) error {
	records, err := l.recordsOf(group)
	if err != nil {
		return err
	}
	for _, rec := range records {
		for row := range int(rec.NumRows()) {
			if err := e.line(rec, row); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *linesEncoder) line(rec arrow.Record, row int) error {
	begin := byte('{')
	for i, name := range e.names {
		value, err := jsonOf(rec.Column(i), row)
		if err != nil {
			return fmt.Errorf("column %s: %w", rec.ColumnName(i), err)
		}
		_ = e.to.WriteByte(begin) // Flush tells of errors
		_, _ = e.to.Write(name)
		_ = e.to.WriteByte(':')
		_, _ = e.to.Write(value)
		begin = ','
	}
	if begin == '{' {
		_ = e.to.WriteByte('{')
	}
	_, err := e.to.WriteString("}\n")
	return err
}

func (e *linesEncoder) end() error {
	err := e.to.Flush()
	e.to = nil
	return err
}

func (e *linesEncoder) abandon() { e.to = nil }

// jsonOf is a value as JSON, as arrow writes it, but for what that does not keep.
func jsonOf(a arrow.Array, row int) ([]byte, error) {
	if a.IsNull(row) {
		return []byte("null"), nil
	}
	switch a := a.(type) {
	case *array.String, *array.LargeString:
		text := textOf(a.(array.BinaryLike), row)
		if !utf8.Valid(text) {
			return nil, fmt.Errorf("%q is no UTF-8, which JSON must be: write Parquet", short(string(text)))
		}
	case *array.Map:
		return objectOf(a, row)
	}
	value, err := json.Marshal(a.GetOneForMarshal(row))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be JSON: %w: write Parquet", short(a.ValueStr(row)), err)
	}
	return value, nil
}

// objectOf is a map as an object. The last of several values of a key counts, for readers, too.
func objectOf(m *array.Map, row int) ([]byte, error) {
	out := []byte{'{'}
	from, to := m.ValueOffsets(row)
	for i := int(from); i < int(to); i++ {
		key, err := json.Marshal(m.Keys().ValueStr(i))
		if err != nil {
			return nil, err
		}
		value, err := jsonOf(m.Items(), i)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// checkLines refuses types that JSON does not keep.
func checkLines(t arrow.DataType) error {
	switch t := t.(type) {
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.FixedSizeBinaryType:
		return errors.New("it has bytes, which JSON has not: write Parquet, or leave it out")
	case arrow.NestedType:
		for _, f := range t.Fields() {
			if err := checkLines(f.Type); err != nil {
				return err
			}
		}
	}
	return nil
}
