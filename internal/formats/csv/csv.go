// Package csv describes tables of text, CSV and TSV: what their header or the dataset calls the columns, and of which
// type these are, as the dataset declares or the front of a file shows. It is a Kind of package records; package csv of
// worker/formats reads the values. What it describes is immutable.
package csv

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/literal"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Kind is CSV, or TSV.
type Kind struct {
	name, delimiter string
	extensions      []string
}

// CSV is the format of files whose fields stand apart by commas, if their dataset does not say otherwise.
func CSV() Kind { return Kind{"CSV", ",", []string{".csv"}} }

// TSV is the format of those with tabs.
func TSV() Kind { return Kind{"TSV", "\t", []string{".tsv", ".tab"}} }

// Name is the format's.
func (k Kind) Name() string { return k.name }

// Version is that of the rule by which files are cut.
func (k Kind) Version() uint32 { return 1 }

// Extensions are those of files' names.
func (k Kind) Extensions() []string { return k.extensions }

// Claims is false: no text says of itself that it is a table.
func (k Kind) Claims([]byte) bool { return false }

// Opened is a file whose front was read.
type Opened struct {
	Dialect

	begin   int64
	fields  []Field
	columns format.Columns
	size    int64
}

// Field is a column: of field I of the records.
type Field struct {
	spec.Column
	Kind     literal.Kind
	Declared bool
	// Index among the fields of a record; -1: the file lacks the column.
	Index int
}

// Open reads a file's front.
func (k Kind) Open(f *records.Front) (records.Opened, error) {
	s, err := k.settings(f)
	if err != nil {
		return nil, err
	}
	o := &Opened{Dialect: s.Dialect}
	front := &front{Front: f, of: o, at: Begin(f.Data), fields: NewFields(&o.Dialect)}
	names, err := front.names(&s)
	if err != nil {
		return nil, err
	}
	o.Blank, o.begin = len(names) == 1, int64(front.at)
	if o.fields, err = declare(f, names); err != nil {
		return nil, err
	}
	front.infer(len(names))
	columns := make([]spec.Column, len(o.fields))
	for i := range o.fields {
		o.fields[i].complete()
		columns[i] = o.fields[i].Column
		o.size += int64(2*len(columns[i].Name)) + fieldBytes
	}
	o.columns = format.NewColumns(columns)
	return o, nil
}

// fieldBytes is about what a Field takes, twice.
const fieldBytes = 512

// Columns are those of the file.
func (o *Opened) Columns() []spec.Column {
	return append([]spec.Column(nil), o.columns.Schema.Columns...)
}

// Begin is where the first record begins: behind the header.
func (o *Opened) Begin() int64 { return o.begin }

// Size is about what it takes in memory.
func (o *Opened) Size() int64 { return o.size }

// Fields is how many a record has.
func (o *Opened) Fields() (n int) {
	for _, f := range o.fields {
		n = max(n, f.Index+1)
	}
	return n
}

// Field is the column that a source reads, of those that the file has.
func (o *Opened) Field(s *pb.Source) (f Field, ok bool) {
	if len(s.GetPath()) != 1 {
		return f, false
	}
	i, ok := o.columns.Column(s.GetPath()[0])
	if !ok {
		return f, false
	}
	f = o.fields[i]
	f.Column = o.columns.Schema.Columns[i] // which may be unsupported
	return f, f.Index >= 0
}

// Find says how a source is read: a column whose type is inferred can be read as any that its texts may be.
func (o *Opened) Find(s *pb.Source) (format.Access, error) {
	f, ok := o.Field(s)
	if !ok && len(s.GetPath()) == 1 {
		return format.Absent, nil
	}
	if ok && f.Unsupported == "" && f.reads(s) {
		return format.Plain, nil
	}
	how, _, err := o.columns.Find(s)
	if err != nil && ok && !f.Declared {
		err = fmt.Errorf("%w: that is what the file's front shows; declare dataset.format.columns.%s", err, f.Name)
	}
	return how, err
}

// reads reports whether texts of a column whose type is inferred may be values of another one.
func (f *Field) reads(s *pb.Source) bool {
	t := spec.TypeFromProto(s.GetType())
	if f.Declared || t.List || s.Key != nil || len(s.GetField()) > 0 {
		return false
	}
	switch f.Kind {
	case literal.Unknown:
		return s.GetMeaning() == "" && t.Kind != pb.Kind_INT32
	case literal.Int:
		return s.GetMeaning() == "" && t.Kind == pb.Kind_FLOAT64
	}
	return false
}

// front reads the records of a file's front.
type front struct {
	*records.Front
	of     *Opened
	at     int
	fields *Fields
}

// next returns the next record that is there as a whole; nil: there is none.
func (f *front) next() ([]byte, error) {
	for f.at < len(f.Data) {
		n, row, err := f.of.Cut(f.Data[f.at:], int64(f.at), f.Whole)
		if err != nil || n == 0 {
			return nil, err
		}
		record := f.Data[f.at : f.at+n]
		f.at += n
		if row {
			return record, nil
		}
	}
	return nil, nil
}

var (
	errEmpty = errors.New("the file is empty, and says no columns; leave it out")
	errFront = errors.New("its first record is longer than what is read to find the columns, or does not end: " +
		"is it of another format?")
)

// names are those of the columns.
func (f *front) names(s *settings) ([]string, error) {
	begin := f.at
	first, err := f.next()
	switch {
	case err != nil:
		return nil, fmt.Errorf("byte %d: %w", begin, err)
	case first == nil && !f.Whole:
		return nil, errFront
	case first == nil:
		return nil, errEmpty
	}
	var names []string
	data := true // no field is a name
	for f.fields.Reset(first); f.fields.More(); {
		text, _, err := f.fields.Next()
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", f.at-len(first)+f.fields.At(), err)
		}
		names = append(names, strings.TrimSpace(string(text)))
		if k := guess(text, false); k == literal.String || k == literal.Binary {
			data = false
		}
	}
	if s.header {
		if data && !s.said {
			return nil, fmt.Errorf("its first record, %.100q, looks like data and not like names of columns: "+
				"say dataset.format.header: false if it is, or true", bytes.TrimSpace(first))
		}
		return named(names), nil
	}
	f.at = begin
	if len(s.names) == 0 {
		return named(make([]string, len(names))), nil
	}
	if len(s.names) != len(names) {
		return nil, fmt.Errorf("dataset.format.names has %d names, and the first record %d fields",
			len(s.names), len(names))
	}
	return s.names, nil
}

// named gives columns without a name one.
func named(names []string) []string {
	for i, name := range names {
		if name == "" {
			names[i] = fmt.Sprintf("column_%d", i)
		}
	}
	return names
}

// inferred bounds how many records types are inferred from.
const inferred = 10_000

// infer finds the types that are not declared. What is wrong with a record is told where it is read.
func (f *front) infer(columns int) {
	kinds := make([]literal.Kind, columns)
	for range inferred {
		record, err := f.next()
		if record == nil || err != nil {
			break
		}
		f.fields.Reset(record)
		for i := 0; f.fields.More() && i < columns; i++ {
			text, quoted, err := f.fields.Next()
			if err != nil {
				break
			}
			if kinds[i] != literal.Binary && !f.of.null(text, quoted) {
				kinds[i] = literal.Wide(kinds[i], guess(text, kinds[i] == literal.String))
			}
		}
	}
	for i := range f.of.fields {
		if c := &f.of.fields[i]; !c.Declared {
			c.Kind = kinds[c.Index]
		}
	}
}

// null reports whether a field says nothing of its column's type.
func (d *Dialect) null(text []byte, quoted bool) bool {
	return len(text) == 0 || !quoted && d.IsNull(text) || d.IsNull(bytes.TrimSpace(text))
}

// guess is the kind of a text; known: it is one of a column of text, and so it matters whether it is UTF-8 alone.
func guess(text []byte, known bool) literal.Kind {
	trimmed := bytes.TrimSpace(text)
	if known {
		return literal.GuessText(text)
	}
	if len(trimmed) == 0 {
		return literal.Unknown
	}
	return literal.Guess(trimmed, literal.TimeKind)
}
