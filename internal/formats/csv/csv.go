// Package csv describes tables of text, CSV and TSV: what their header or the dataset calls the columns, and of which
// type these are, as the dataset declares or the front of a file shows. It is a Kind of package records; package csv of
// worker/formats reads the values. What it describes is immutable.
package csv

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	if bytes.HasPrefix(f.Data, []byte("\xff\xfe")) || bytes.HasPrefix(f.Data, []byte("\xfe\xff")) {
		return nil, errUTF16
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

// Behind is what may be the second half of a line's end.
func (o *Opened) Behind() int { return 1 }

// Closes reports whether data ends with the first half.
func (o *Opened) Closes(data []byte) bool { return bytes.HasSuffix(data, []byte("\r")) }

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
	for i := range o.fields {
		if slices.Equal(o.fields[i].Path, s.GetPath()) {
			f = o.fields[i]
			f.Column = o.columns.Schema.Columns[i] // which may be unsupported
			return f, f.Index >= 0
		}
	}
	return f, false
}

// meant is what a column's values are, and want what a source's must be.
func (f *Field) meant() string {
	if f.Declared || f.Kind == literal.Unknown || f.Meaning != "" {
		return cmp.Or(f.Meaning, f.Type.String())
	}
	return f.Kind.String()
}

func want(s *pb.Source) string {
	return cmp.Or(s.GetMeaning(), spec.TypeFromProto(s.GetType()).String())
}

// Find says how a source is read: a column whose type is inferred can be read as any that its texts may be.
func (o *Opened) Find(s *pb.Source) (format.Access, error) {
	f, ok := o.Field(s)
	if !ok {
		return format.Absent, nil
	}
	if f.Unsupported != "" && !f.Untyped {
		return 0, fmt.Errorf("column %s cannot be read: %s", f.Name, f.Unsupported)
	}
	if _, ok := f.As(s); ok {
		return format.Plain, nil
	}
	why := "as declared"
	if !f.Declared {
		why = "as the file's front shows: declare dataset.format.columns." + f.Name
	}
	return 0, fmt.Errorf("column %s is %s here, not %s, %s", f.Name, f.meant(), want(s), why)
}

// As is what the field's texts are for a source, if they may be values of it: of a column whose type is inferred, the
// front may not have shown all of it.
func (f *Field) As(s *pb.Source) (k literal.Kind, ok bool) {
	t := spec.TypeFromProto(s.GetType())
	if t.List || s.Key != nil || len(s.GetField()) > 0 {
		return k, false
	}
	switch {
	case f.Kind == literal.Unknown:
		return unknownAs(t.Kind, s.GetMeaning())
	case f.Kind == literal.Int && !f.Declared && t.Kind == pb.Kind_FLOAT64:
		return literal.Float, s.GetMeaning() == ""
	}
	return f.Kind, (t.Kind == f.Own || format.Widens(f.Type.Kind, t.Kind)) && s.GetMeaning() == f.Meaning
}

// unknownAs is what texts must be of a column of whose front nothing is known, but what other files show.
func unknownAs(kind pb.Kind, meaning string) (literal.Kind, bool) {
	switch meaning {
	case meansMicros:
		return literal.Micros, kind == pb.Kind_INT64
	case meansNanos:
		return literal.Nanos, kind == pb.Kind_INT64
	case "":
	default:
		return literal.Unknown, false
	}
	switch kind {
	case pb.Kind_BOOL:
		return literal.Bool, true
	case pb.Kind_INT32: // no integers are inferred as such
		return literal.Date, true
	case pb.Kind_INT64:
		return literal.Int, true
	case pb.Kind_FLOAT64:
		return literal.Float, true
	}
	return literal.Binary, kind == pb.Kind_BINARY
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
	errUTF16 = errors.New("it is UTF-16, which is not read: write it as UTF-8")
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
		if err := records.CheckColumns(len(names)); err != nil {
			return nil, fmt.Errorf("%w, or say dataset.format.delimiter if it has another one", err)
		}
		if k := guess(text); len(text) > 0 && (k == literal.String || k == literal.Binary) {
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
	kinds, texts := make([]literal.Kind, columns), make([]bool, columns)
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
			switch {
			case !quoted && f.of.IsNull(text):
			case f.of.IsNull(bytes.TrimSpace(text)): // of text alone it is a value
				texts[i] = true
			case kinds[i] == literal.String:
				kinds[i] = literal.Wide(kinds[i], literal.GuessText(text))
			case kinds[i] != literal.Binary:
				kinds[i] = literal.Wide(kinds[i], guess(text))
			}
		}
	}
	for i := range f.of.fields {
		if c := &f.of.fields[i]; !c.Declared {
			if c.Kind = kinds[c.Index]; c.Kind == literal.Unknown && texts[c.Index] {
				c.Kind = literal.String
			}
		}
	}
}

// guess is the kind of a text.
func guess(text []byte) literal.Kind { return literal.Guess(bytes.TrimSpace(text), literal.TimeKind) }
