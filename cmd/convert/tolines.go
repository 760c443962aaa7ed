package convert

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
	return l.eachRow(group, e.line)
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

// jsonOf is a value as JSON. What JSON does not keep is an error.
func jsonOf(a arrow.Array, row int) ([]byte, error) {
	if a.IsNull(row) {
		return []byte("null"), nil
	}
	switch a := a.(type) {
	case *array.Map:
		from, to := a.ValueOffsets(row)
		return objectOf(int(to-from), func(i int) (string, arrow.Array, int) {
			return a.Keys().ValueStr(int(from) + i), a.Items(), int(from) + i
		})
	case *array.Struct:
		fields := a.DataType().(*arrow.StructType).Fields()
		return objectOf(a.NumField(), func(i int) (string, arrow.Array, int) {
			return fields[i].Name, a.Field(i), row
		})
	case array.ListLike:
		from, to := a.ValueOffsets(row)
		return listOf(a.ListValues(), int(from), int(to))
	case array.BinaryLike:
		return textAsJSON(string(textOf(a, row)))
	}
	return numberOf(a, row)
}

// numberOf is the JSON of a value that holds no others, and is no text.
func numberOf(a arrow.Array, row int) ([]byte, error) {
	text := inWords(a, row)
	switch a.(type) {
	case *array.Float16, *array.Float32, *array.Float64:
		if text == "NaN" || strings.Contains(text, "Inf") {
			return nil, fmt.Errorf("it is %s, which JSON has not: write Parquet", text)
		}
		if !strings.ContainsAny(text, ".e") { // else readers take it for a whole number
			text += ".0"
		}
		return []byte(text), nil
	}
	if id := a.DataType().ID(); id == arrow.BOOL || arrow.IsInteger(id) {
		return []byte(text), withinInt64(a, row)
	}
	return textAsJSON(text)
}

// inWords is a value that holds no others, as text.
func inWords(a arrow.Array, row int) string {
	switch a := a.(type) {
	case array.BinaryLike:
		return string(textOf(a, row))
	case *array.Timestamp:
		t := a.DataType().(*arrow.TimestampType)
		text := a.Value(row).ToTime(t.Unit).Format("2006-01-02T15:04:05.999999999")
		if t.TimeZone != "" && t.TimeZone != local {
			text += "Z"
		}
		return text
	case *array.Decimal128:
		return a.Value(row).ToString(a.DataType().(*arrow.Decimal128Type).Scale)
	}
	return a.ValueStr(row)
}

// textInstead is a value as text that is no JSON.
func textInstead(a arrow.Array, row int) (string, error) {
	text := inWords(a, row)
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("%q is no UTF-8: write Parquet", short(text))
	}
	return text, nil
}

func textAsJSON(text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%q is no UTF-8, which JSON must be: write Parquet", short(text))
	}
	return json.Marshal(text)
}

func listOf(values arrow.Array, from, to int) ([]byte, error) {
	out := []byte{'['}
	for i := from; i < to; i++ {
		value, err := jsonOf(values, i)
		if err != nil {
			return nil, err
		}
		if i > from {
			out = append(out, ',')
		}
		out = append(out, value...)
	}
	return append(out, ']'), nil
}

// objectOf is an object of n members. The last of several of a name counts, for readers, too.
func objectOf(n int, member func(i int) (string, arrow.Array, int)) ([]byte, error) {
	out := []byte{'{'}
	for i := range n {
		name, values, row := member(i)
		key, err := textAsJSON(name)
		if err != nil {
			return nil, err
		}
		value, err := jsonOf(values, row)
		if err != nil {
			return nil, err
		}
		if i > 0 {
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
