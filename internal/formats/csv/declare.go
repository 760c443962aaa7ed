package csv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/literal"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// What times stand for; those without a zone are UTC.
const (
	meansMicros = "timestamp[us]"
	meansNanos  = "timestamp[ns]"
)

// declare are the columns of names, with the types that the dataset declares, and those which only it knows.
func declare(f *records.Front, names []string) ([]Field, error) {
	fields := make([]Field, len(names))
	for i, name := range names {
		fields[i] = Field{Column: spec.Column{Name: name, Path: []string{name}}, Index: i}
	}
	declared := f.How.GetColumns()
	for _, name := range sorted(declared) {
		d, err := declaration(name, declared[name])
		if err != nil {
			return nil, err
		}
		known := false
		for i := range fields {
			if fields[i].Name == name {
				d.Index, known = i, true
				fields[i] = d
			}
		}
		if !known {
			d.Index = -1
			fields = append(fields, d)
		}
	}
	return fields, nil
}

func sorted(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// declaration reads the type of a column.
func declaration(name, text string) (Field, error) {
	f := Field{Declared: true}
	ok := true
	switch text {
	case "date":
		f.Kind = literal.Date
	case "timestamp", meansMicros:
		f.Kind = literal.Micros
	case meansNanos:
		f.Kind = literal.Nanos
	default:
		f.Column, ok = spec.ParseColumn(text)
		ok = ok && !f.Type.List && f.Own != pb.Kind_FLOAT16 && f.Own != pb.Kind_BFLOAT16
		f.Kind = kindOf(&f.Column)
	}
	f.Name, f.Path = name, []string{name}
	if !ok {
		return f, fmt.Errorf("dataset.format.columns.%s: %q is no type that a field of text can have; there are "+
			"bool, int8, int16, int32, int64, uint8, uint16, uint32, float32, float64, string, binary, date, "+
			"timestamp and timestamp[ns]", name, strings.TrimSpace(text))
	}
	return f, nil
}

// kindOf is what the texts of a column are.
func kindOf(c *spec.Column) literal.Kind {
	switch {
	case c.Type.Kind == pb.Kind_BOOL:
		return literal.Bool
	case c.Type.Kind == pb.Kind_FLOAT32, c.Type.Kind == pb.Kind_FLOAT64:
		return literal.Float
	case c.Text:
		return literal.String
	case c.Type.Kind == pb.Kind_BINARY:
		return literal.Binary
	}
	return literal.Int
}

// complete gives a column the type of its kind.
func (f *Field) complete() {
	if f.Inferred = !f.Declared; f.Type.Kind != pb.Kind_KIND_UNSPECIFIED {
		return
	}
	switch c := &f.Column; f.Kind {
	case literal.Bool:
		c.Type.Kind = pb.Kind_BOOL
	case literal.Int:
		c.Type.Kind = pb.Kind_INT64
	case literal.Float:
		c.Type.Kind = pb.Kind_FLOAT64
	case literal.Date:
		c.Type.Kind, c.Date = pb.Kind_INT32, true
	case literal.Micros:
		c.Type.Kind, c.Meaning = pb.Kind_INT64, meansMicros
	case literal.Nanos:
		c.Type.Kind, c.Meaning = pb.Kind_INT64, meansNanos
	case literal.Binary:
		c.Type.Kind = pb.Kind_BINARY
	case literal.String:
		c.Type.Kind, c.Text = pb.Kind_BINARY, true
	case literal.Unknown:
		c.Untyped, c.Unsupported = true, format.Untyped
	}
}
