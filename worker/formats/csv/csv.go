// Package csv reads the values of records of CSV and TSV, which internal/formats/csv describes, into the columns of a
// window. A Parser belongs to one goroutine.
package csv

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/csv"
	"github.com/penstock-ml/penstock/internal/formats/literal"
	files "github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/worker/formats/records"
)

// Parser finds the values of one file's records.
type Parser struct {
	of     *csv.Opened
	fields *csv.Fields
	count  int      // of fields that a record has
	reads  []reader // one for each field, of those that are read
}

// reader reads one field.
type reader struct {
	csv.Field
	to          []target
	least, most int64 // of whole numbers
}

// target is a source that is read from a field.
type target struct {
	source int
	kind   literal.Kind // that the field is read as
	bits   int          // of floats
}

// NewParser returns the parser of a file's records for sources.
func NewParser(f *files.File, sources []*pb.Source) (records.Parser, error) {
	of, ok := f.Opened.(*csv.Opened)
	if !ok {
		return nil, errors.New("it is no table of text")
	}
	p := &Parser{of: of, fields: csv.NewFields(&of.Dialect), count: of.Fields()}
	p.reads = make([]reader, p.count)
	for i, s := range sources {
		field, ok := of.Field(s)
		if !ok {
			continue
		}
		as, ok := field.As(s)
		if !ok {
			return nil, fmt.Errorf("feature %s: the file's column %s is none of its type", s.GetName(), field.Name)
		}
		r := &p.reads[field.Index]
		if r.to == nil {
			r.Field = field
			r.least, r.most = span(&field)
		}
		r.to = append(r.to, target{i, as, bitsOf(&field, s)})
	}
	return p, nil
}

// bitsOf is how many a float has: those that the column's have are what they are as wider ones, too.
func bitsOf(f *csv.Field, s *pb.Source) int {
	if f.Type.Kind == pb.Kind_FLOAT32 {
		return 8 * spec.Width(f.Type.Kind)
	}
	return 8 * spec.Width(s.GetType().GetKind())
}

// span is what whole numbers a column has.
func span(f *csv.Field) (least, most int64) {
	kind := f.Own
	if kind == pb.Kind_KIND_UNSPECIFIED {
		kind = f.Type.Kind
	}
	if least, most = records.Span(kind); most > 0 {
		return least, most
	}
	return math.MinInt64, math.MaxInt64
}

// Parse sets what a record has of the columns.
func (p *Parser) Parse(record []byte, columns []*records.Column) error {
	f := p.fields
	f.Reset(record)
	n := 0
	for ; f.More(); n++ {
		text, quoted, err := f.Next()
		if err != nil {
			return p.at(n, err)
		}
		if n >= p.count {
			continue
		}
		for _, t := range p.reads[n].to {
			if err := p.set(&p.reads[n], t, text, quoted, columns[t.source]); err != nil {
				return p.at(n, err)
			}
		}
	}
	if n != p.count {
		return fmt.Errorf("it has %d fields, and there are %d columns: mend it, or say delimiter, "+
			"quote or escape of dataset.format", n, p.count)
	}
	return nil
}

// at says where in the record an error is.
func (p *Parser) at(field int, err error) error {
	name := ""
	if field < p.count && p.reads[field].to != nil {
		name = " (column " + p.reads[field].Name + ")"
	}
	return fmt.Errorf("field %d%s, at byte %d of the record: %w", field, name, p.fields.At(), err)
}

// set sets a field's value.
func (p *Parser) set(r *reader, t target, text []byte, quoted bool, c *records.Column) error {
	if t.kind == literal.String || t.kind == literal.Binary {
		if !quoted && p.of.IsNull(text) {
			return c.Null()
		}
		if t.kind == literal.String && literal.GuessText(text) != literal.String {
			return fmt.Errorf("%.40q is not UTF-8: declare dataset.format.columns.%s: binary", text, r.Name)
		}
		return c.Bytes(text)
	}
	text = bytes.TrimSpace(text)
	if p.of.IsNull(text) {
		return c.Null()
	}
	if ok, err := r.number(t, text, c); ok || err != nil {
		return err
	}
	return r.wrong(p, text)
}

// number sets a value that is no text; false: the text is none.
func (r *reader) number(t target, text []byte, c *records.Column) (ok bool, err error) {
	var n int64
	switch t.kind {
	case literal.Float:
		x, ok := literal.ParseFloat(text, t.bits)
		if !ok {
			return false, nil
		}
		return true, c.Float(x)
	case literal.Bool:
		x, ok := literal.ParseBool(text)
		if !ok {
			return false, nil
		}
		return true, c.Bool(x)
	case literal.Int:
		n, ok = literal.ParseInt(text)
		ok = ok && n >= r.least && n <= r.most
	case literal.Date:
		n, ok = literal.Days(text)
	case literal.Micros:
		n, ok = literal.MicrosOf(text)
	case literal.Nanos:
		n, ok = literal.NanosOf(text)
	}
	if !ok {
		return false, nil
	}
	return true, c.Int(n)
}

// wrong says what to do about a text that is none of its column's type.
func (r *reader) wrong(p *Parser, text []byte) error {
	kind, why := r.Kind.String(), "as declared"
	if r.Declared {
		kind = p.typeOf(r)
	} else {
		why = "as the file's front shows"
	}
	as := ""
	_, whole := literal.ParseInt(text)
	if _, is := literal.ParseFloat(text, 64); is && !whole && r.Kind == literal.Int {
		as = ": float64"
	}
	return fmt.Errorf("%.40q is no %s, %s: declare dataset.format.columns.%s%s, add it to dataset.format.nulls, "+
		"or mend the file", text, kind, why, r.Name, as)
}

func (p *Parser) typeOf(r *reader) string {
	if r.Own != pb.Kind_KIND_UNSPECIFIED {
		return spec.KindName(r.Own)
	}
	if r.Kind == literal.Int || r.Kind == literal.Float {
		return r.Type.String()
	}
	return r.Kind.String()
}
