package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/internal/formats/literal"
)

// text makes records of CSV and TSV files.
type text struct {
	options  Options
	in       *inputs
	columns  []textColumn
	header   []string // nil without one
	width    int      // fields of a line, some of which are columns
	wanted   []field  // of a line
	builder  *array.RecordBuilder
	file     *textFile // being read
	opened   int       // files so far
	rows     int64     // of the file, so far
	used     int64     // bytes of the files before
	total    int64
	fileName string
}

func openText(ctx context.Context, o Options, in *inputs) (*text, error) {
	o.usePreset()
	t := &text{options: o, in: in, total: in.total()}
	if err := t.infer(ctx); err != nil {
		return nil, err
	}
	fields := make([]arrow.Field, len(t.columns))
	for i, c := range t.columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.kind.arrow(), Nullable: true}
	}
	t.builder = array.NewRecordBuilder(memory.NewGoAllocator(), arrow.NewSchema(fields, nil))
	return t, nil
}

// infer reads the first rows to find the columns and the kinds that are not declared.
func (t *text) infer(ctx context.Context) error {
	if err := t.nextFile(ctx); err != nil {
		if errors.Is(err, errEnd) {
			return errors.New("the input files are empty")
		}
		return err
	}
	defer t.rewind()
	if !slices.ContainsFunc(t.columns, func(c textColumn) bool { return c.kind == unknown }) {
		return nil
	}
	guesses := make([]literal.Kind, len(t.columns))
	for row := 0; row < t.options.InferRows; row++ {
		fields, err := t.line(ctx)
		if errors.Is(err, errEnd) {
			break
		}
		if err != nil {
			return err
		}
		for i, f := range fields {
			guesses[i] = literal.Wide(guesses[i], guess(f, t.options.TimeFormats))
		}
	}
	for i := range t.columns {
		if c := &t.columns[i]; c.kind == unknown {
			c.origin = fmt.Sprintf("inferred from the first %d rows", t.options.InferRows)
			if c.kind = inferred()[guesses[i]]; c.kind == unknown {
				c.kind = stringKind
			}
		}
	}
	return nil
}

// rewind goes back to the beginning of the first file.
func (t *text) rewind() {
	t.close()
	t.file, t.opened, t.used = nil, 0, 0
}

// nextFile opens the next file that is not empty, or returns errEnd.
func (t *text) nextFile(ctx context.Context) error {
	for {
		if t.file != nil {
			t.used += t.file.inflow.n
			t.file.close()
			t.file = nil
		}
		if t.opened == len(t.in.files) {
			return errEnd
		}
		t.rows, t.fileName = 0, t.in.name(t.opened)
		t.opened++
		d, err := delimiter(t.options.Delimiter, t.fileName)
		if err != nil {
			return fmt.Errorf("%s: %w", t.fileName, err)
		}
		if t.file, err = openTextFile(ctx, t.in, t.opened-1, d, t.options.quote()); err != nil {
			return err
		}
		if err := t.begin(); !errors.Is(err, errEnd) {
			return err
		}
	}
}

// begin reads the header of a file. Without one, it looks at the first line of all for the number of fields.
func (t *text) begin() error {
	if t.options.NoHeader && t.columns != nil {
		return nil
	}
	fields, err := t.file.next()
	if err != nil {
		return t.at(err)
	}
	if t.options.NoHeader {
		t.file.again, t.width = true, len(fields)
		t.columns, err = declare(t.options, nil, len(fields))
		return t.at(err)
	}
	header := make([]string, len(fields))
	for i, f := range fields {
		header[i] = strings.TrimSpace(string(f.text))
	}
	if t.columns == nil {
		t.header, t.width = header, len(fields)
		t.columns, err = declare(t.options, header, len(fields))
		return t.at(err)
	}
	if !slices.Equal(header, t.header) {
		return t.at(fmt.Errorf("the header has %s, but that of %s %s; convert files of other columns by themselves",
			some(header), t.in.name(0), some(t.header)))
	}
	return nil
}

// at says where an error is.
func (t *text) at(err error) error {
	if err == nil || errors.Is(err, errEnd) {
		return err
	}
	return fmt.Errorf("%s line %d: %w", t.fileName, t.file.line, err)
}

// line returns the columns' fields of the next line of data, or errEnd. Empty lines count only in files of one column.
func (t *text) line(ctx context.Context) ([]field, error) {
	for {
		if t.file == nil {
			if err := t.nextFile(ctx); err != nil {
				return nil, err
			}
		}
		fields, err := t.file.next()
		switch {
		case errors.Is(err, errEnd):
			if err := t.nextFile(ctx); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, t.at(err)
		case len(fields) == t.width:
			t.rows++
			t.wanted = t.wanted[:0]
			for _, c := range t.columns {
				t.wanted = append(t.wanted, fields[c.at])
			}
			t.useNulls(t.wanted)
			return t.wanted, nil
		case len(fields) == 1 && fields[0].null():
			continue
		}
		return nil, t.at(fmt.Errorf("found %d fields, want %d; mend the line, or choose another delimiter",
			len(fields), t.width))
	}
}

// useNulls makes null of fields that say so, unless they are quoted.
func (t *text) useNulls(fields []field) {
	for i, f := range fields {
		for _, null := range t.options.Nulls {
			if !f.quoted && string(bytes.TrimSpace(f.text)) == null {
				fields[i].text = nil
			}
		}
	}
}

func (t *text) next(ctx context.Context, limit int64) (arrow.Record, error) {
	rows, size := int64(0), 0
	for rows < limit && size < recordBytes {
		fields, err := t.line(ctx)
		if errors.Is(err, errEnd) {
			break
		}
		if err != nil {
			return nil, err
		}
		for i, f := range fields {
			if t.columns[i].kind.appendTo(t.builder.Field(i), f, t.options.TimeFormats) != nil {
				return nil, t.valueError(t.columns[i], f)
			}
			size += len(f.text)
		}
		rows++
	}
	if rows == 0 {
		return nil, errEnd
	}
	return t.builder.NewRecord(), nil
}

// valueError says what to do about a value that its column's kind does not take.
func (t *text) valueError(c textColumn, f field) error {
	const limit = 40
	shown := string(f.text[:min(len(f.text), limit)])
	if len(f.text) > limit {
		shown += "..."
	}
	taker := wouldTake(c.kind, f, t.options.TimeFormats)
	advice := fmt.Sprintf("declare the column as %s:%v, or mend the file", c.name, taker)
	return t.at(fmt.Errorf("column %s: %q is no %v (%s); %s", c.name, shown, c.kind, c.origin, advice))
}

func (t *text) behind() place { return place{Input: t.opened - 1, Row: t.rows} }

func (t *text) seek(ctx context.Context, input int) error {
	t.rewind()
	t.opened = input
	for _, f := range t.in.files[:input] {
		t.used += f.GetSize()
	}
	if err := t.nextFile(ctx); err != nil && !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

func (t *text) schema() *arrow.Schema { return t.builder.Schema() }

func (t *text) read() (used, total int64) {
	if t.file == nil {
		return t.used, t.total
	}
	return t.used + t.file.inflow.n, t.total
}

func (t *text) close() {
	if t.file != nil {
		t.file.close()
	}
}
