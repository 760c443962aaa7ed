package reference

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// dialect is how a table of text is written.
type dialect struct {
	delimiter, quote, escape, comment byte // 0: none
	nulls                             []string
}

// textField is a field of a record; quoted ones are never null where they are texts.
type textField struct {
	text   string
	quoted bool
}

// The kinds of texts, each of which takes those of the ones before it if both are numbers, or times.
const (
	unknownTexts = iota
	boolTexts
	intTexts
	floatTexts
	plainTexts
	binaryTexts
	dateTexts
	microTexts
	nanoTexts
)

func readCSV(data []byte, how *pb.Format) (*recordFile, error) { return readTable(data, how, ",") }

func readTSV(data []byte, how *pb.Format) (*recordFile, error) { return readTable(data, how, "\t") }

// readTable reads a table of text whose first record, if it is not said otherwise, names the columns.
func readTable(data []byte, how *pb.Format, delimiter string) (*recordFile, error) {
	char := func(name, otherwise string) byte {
		return (option(how, name, otherwise) + "\x00")[0]
	}
	d := &dialect{
		delimiter: char("delimiter", delimiter), quote: char("quote", `"`), escape: char("escape", ""),
		comment: char("comment", ""), nulls: []string{""},
	}
	if v, ok := how.GetOptions()["nulls"]; ok {
		d.nulls = nil
		for _, null := range spec.Elements(v) {
			d.nulls = append(d.nulls, null.GetText())
		}
	}
	v, said := how.GetOptions()["header"]
	rows, err := d.rows(string(bytes.TrimPrefix(data, []byte("\ufeff"))), !said || v.GetBool())
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("there is no record")
	}
	names, rows, err := header(rows, how)
	if err != nil {
		return nil, err
	}
	f := &recordFile{}
	for i, row := range rows {
		if len(row) != len(names) {
			return nil, fmt.Errorf("row %d has %d fields, not %d", i, len(row), len(names))
		}
		f.records = append(f.records, textRow{d, row})
	}
	f.columns, err = d.columns(names, rows, how)
	return f, err
}

// header takes the names of the columns.
func header(rows [][]textField, how *pb.Format) (names []string, rest [][]textField, err error) {
	v, said := how.GetOptions()["header"]
	if said && !v.GetBool() {
		given := spec.Elements(how.GetOptions()["names"])
		if how.GetOptions()["names"] != nil && len(given) > 0 && len(given) != len(rows[0]) {
			return nil, nil, fmt.Errorf("%d names of %d columns", len(given), len(rows[0]))
		}
		for i := range rows[0] {
			name := fmt.Sprint("column_", i)
			if how.GetOptions()["names"] != nil && i < len(given) {
				name = given[i].GetText()
			}
			names = append(names, name)
		}
		return names, rows, nil
	}
	isData := !said
	for i, f := range rows[0] {
		kind := guess(trimmed(f.text))
		isData = isData && (f.text == "" || kind != plainTexts && kind != binaryTexts)
		if f.text = trimmed(f.text); f.text == "" {
			f.text = fmt.Sprint("column_", i)
		}
		names = append(names, f.text)
	}
	if isData {
		return nil, nil, errors.New("the first record looks like data")
	}
	return names, rows[1:], nil
}

func trimmed(s string) string { return strings.TrimSpace(s) }

// rows are the records of a text. Blank lines are none, unless there is one column: then they are nulls of it, but for
// those in front of a header.
func (d *dialect) rows(s string, header bool) (rows [][]textField, err error) {
	lines, err := d.parse(s)
	first := slices.IndexFunc(lines, func(line []textField) bool { return line != nil })
	for i, line := range lines {
		switch {
		case line != nil:
			rows = append(rows, line)
		case first >= 0 && len(lines[first]) == 1 && (i > first || !header):
			rows = append(rows, []textField{{}})
		}
	}
	return rows, err
}

// parse takes a text apart, character by character. A blank line has no fields.
func (d *dialect) parse(s string) (lines [][]textField, err error) {
	for at := 0; at < len(s); {
		if d.comment != 0 && s[at] == d.comment {
			at += lineEnd(s[at:])
			continue
		}
		begin := at
		var row []textField
		for more := true; more; {
			var f textField
			if f, at, err = d.field(s, at); err != nil {
				return nil, fmt.Errorf("record %d: %w", len(lines), err)
			}
			row = append(row, f)
			if more = at < len(s) && s[at] == d.delimiter; more {
				at++
			}
		}
		if at == begin {
			row = nil
		}
		lines = append(lines, row)
		at += lineEnd(s[at:])
	}
	return lines, nil
}

// lineEnd is how many bytes there are up to the next line.
func lineEnd(s string) int {
	i := strings.IndexAny(s, "\r\n")
	switch {
	case i < 0:
		return len(s)
	case strings.HasPrefix(s[i:], "\r\n"):
		return i + 2
	}
	return i + 1
}

// field reads the field at a place, and returns the place behind it: of a delimiter, a line's end, or the end.
func (d *dialect) field(s string, at int) (f textField, end int, err error) {
	var b strings.Builder
	inside := false
	if f.quoted = d.quote != 0 && at < len(s) && s[at] == d.quote; f.quoted {
		inside = true
		at++
	}
	for ; at < len(s); at++ {
		c := s[at]
		switch {
		case d.escape != 0 && c == d.escape && at+1 < len(s):
			at++
			b.WriteByte(s[at])
		case inside && c == d.quote && at+1 < len(s) && s[at+1] == d.quote:
			at++
			b.WriteByte(c)
		case inside && c == d.quote:
			if at++; at < len(s) && s[at] != d.delimiter && s[at] != '\n' && s[at] != '\r' {
				return f, at, errors.New("a quoted field goes on")
			}
			f.text = b.String()
			return f, at, nil
		case !inside && (c == d.delimiter || c == '\n' || c == '\r'):
			f.text = b.String()
			return f, at, nil
		default:
			b.WriteByte(c)
		}
	}
	if inside {
		return f, at, errors.New("a quoted field does not end")
	}
	f.text = b.String()
	return f, at, nil
}

// inferredRows is how many records the types are those of.
const inferredRows = 10_000

// columns are those of the names, with the types that the texts have, or the dataset declares.
func (d *dialect) columns(names []string, rows [][]textField, how *pb.Format) (out []column, err error) {
	for i, name := range names {
		kind, blank, size := unknownTexts, false, 0
		for n, row := range rows {
			for _, f := range row {
				size += len(f.text) + 1
			}
			if n >= inferredRows || size > front {
				break
			}
			f := row[i]
			switch {
			case !f.quoted && slices.Contains(d.nulls, f.text):
			case slices.Contains(d.nulls, trimmed(f.text)):
				blank = true
			default:
				kind = widest(kind, guess(trimmed(f.text)), f.text)
			}
		}
		if kind == unknownTexts && blank {
			kind = plainTexts
		}
		c := column{name: name, path: []string{strconv.Itoa(i)}, inferred: true}
		out = append(out, c.ofTexts(kind))
	}
	for name, typ := range how.GetColumns() {
		at := slices.Index(names, name)
		c, err := declaredText(name, typ)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			c.path = []string{"-1"}
			out = append(out, c)
			continue
		}
		c.path = []string{strconv.Itoa(at)}
		out[at] = c
	}
	return out, nil
}

// declaredText is a column of a type that the dataset declares.
func declaredText(name, typ string) (column, error) {
	c := column{name: name, declared: true}
	switch typ {
	case "date":
		return c.ofTexts(dateTexts), nil
	case "timestamp", "timestamp[us]":
		return c.ofTexts(microTexts), nil
	case "timestamp[ns]":
		return c.ofTexts(nanoTexts), nil
	}
	t, ok := spec.ParseColumn(typ)
	if !ok || t.Type.List {
		return c, fmt.Errorf("column %s: no text is %s", name, typ)
	}
	c.typ, c.own = t.Type, t.Own
	switch {
	case t.Type.Kind == pb.Kind_BOOL:
		c.kind = boolTexts
	case holdingOf(t.Type.Kind) == storedFloats:
		c.kind = floatTexts
	case t.Text:
		c.kind = plainTexts
	case t.Type.Kind == pb.Kind_BINARY:
		c.kind = binaryTexts
	default:
		c.kind = intTexts
	}
	return c, nil
}

// ofTexts gives a column the type that texts of a kind are.
func (c column) ofTexts(kind int) column {
	c.kind = kind
	c.untyped = kind == unknownTexts
	c.typ.Kind = map[int]pb.Kind{
		boolTexts: pb.Kind_BOOL, intTexts: pb.Kind_INT64, floatTexts: pb.Kind_FLOAT64, plainTexts: pb.Kind_BINARY,
		binaryTexts: pb.Kind_BINARY, dateTexts: pb.Kind_INT32, microTexts: pb.Kind_INT64, nanoTexts: pb.Kind_INT64,
	}[kind]
	c.unit = map[int]string{microTexts: "us", nanoTexts: "ns"}[kind]
	return c
}

//nolint:gochecknoglobals // constants
var (
	wholeText   = regexp.MustCompile(`^[+-]?[0-9]+$`)
	zeroesFirst = regexp.MustCompile(`^[+-]*0[0-9]`)
	floatText   = regexp.MustCompile(`(?i)^[+-]?([0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|inf|infinity)$|^nan$`)
)

// guess is the kind of a text by itself.
func guess(s string) int {
	_, isTime, kind := timeText(s)
	switch {
	case strings.EqualFold(s, "true") || strings.EqualFold(s, "false"):
		return boolTexts
	case zeroesFirst.MatchString(s):
	case wholeText.MatchString(s):
		if _, err := strconv.ParseInt(s, 10, 64); err == nil {
			return intTexts
		}
	case floatText.MatchString(s):
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return floatTexts
		}
	case isTime:
		return kind
	}
	if utf8.ValidString(s) {
		return plainTexts
	}
	return binaryTexts
}

// widest is the kind that takes the texts of both.
func widest(a, b int, s string) int {
	numbers := a <= floatTexts && a >= intTexts && b <= floatTexts && b >= intTexts
	switch {
	case a == unknownTexts || a == b:
		return b
	case numbers:
		return floatTexts
	case a >= dateTexts && b >= dateTexts:
		return max(a, b)
	case a == binaryTexts || b == binaryTexts || !utf8.ValidString(s):
		return binaryTexts
	}
	return plainTexts
}

// timeText reads a date or a time, and says which it is.
func timeText(s string) (t time.Time, ok bool, kind int) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, true, dateTexts
	}
	if len(s) < 16 || s[10] != 'T' && s[10] != ' ' || strings.Contains(s, ",") {
		return t, false, unknownTexts
	}
	for _, zone := range []string{"", "Z07:00", "Z0700", "Z07", " UTC"} {
		t, err := time.Parse("2006-01-02T15:04:05"+zone, s[:10]+"T"+s[11:])
		if err != nil && zone == "" {
			t, err = time.Parse("2006-01-02T15:04", s[:10]+"T"+s[11:])
		}
		switch {
		case err != nil:
		case t.Nanosecond()%1000 != 0:
			return t.UTC(), true, nanoTexts
		default:
			return t.UTC(), true, microTexts
		}
	}
	return t, false, unknownTexts
}

// textRow is a record of a table of text. A column's path has the number of its field.
type textRow struct {
	of     *dialect
	fields []textField
}

func (r textRow) value(c column) (any, bool, error) {
	if c.path == nil {
		return nil, false, nil
	}
	at, err := strconv.Atoi(c.path[0])
	if err != nil || at < 0 {
		return nil, false, err
	}
	f, kind := r.fields[at], c.kind
	if kind == unknownTexts || kind == intTexts && !c.declared && c.typ.Kind == pb.Kind_FLOAT64 {
		kind = kindOfTexts(c.typ.Kind, c.unit)
	}
	if kind == plainTexts || kind == binaryTexts {
		switch {
		case !f.quoted && slices.Contains(r.of.nulls, f.text):
			return nil, true, nil
		case kind == plainTexts && !utf8.ValidString(f.text):
			return nil, false, errors.New("it is not UTF-8")
		}
		return textual(f.text), true, nil
	}
	s := trimmed(f.text)
	if slices.Contains(r.of.nulls, s) {
		return nil, true, nil
	}
	v, err := parseText(s, kind)
	return v, true, err
}

// kindOfTexts is what texts are that other files show to be of a type.
func kindOfTexts(k pb.Kind, unit string) int {
	switch {
	case unit == "us":
		return microTexts
	case unit == "ns":
		return nanoTexts
	case k == pb.Kind_BOOL:
		return boolTexts
	case k == pb.Kind_INT32:
		return dateTexts
	case k == pb.Kind_INT64:
		return intTexts
	case k == pb.Kind_FLOAT64:
		return floatTexts
	}
	return binaryTexts
}

// parseText reads a text of a kind.
func parseText(s string, kind int) (any, error) {
	wrong := fmt.Errorf("%q is of another type", s)
	t, isTime, _ := timeText(s)
	switch kind {
	case boolTexts:
		is := strings.EqualFold(s, "true") || s == "1"
		if !is && !strings.EqualFold(s, "false") && s != "0" {
			return nil, wrong
		}
		return is, nil
	case dateTexts:
		if t.Unix()%86400 != 0 || t.Nanosecond() != 0 || !isTime {
			return nil, wrong
		}
		return t.Unix() / 86400, nil
	case microTexts:
		if t.Nanosecond()%1000 != 0 || !isTime {
			return nil, wrong
		}
		return t.UnixMicro(), nil
	case nanoTexts:
		if !isTime || !time.Unix(0, t.UnixNano()).Equal(t) {
			return nil, wrong
		}
		return t.UnixNano(), nil
	}
	return numeral(s), nil
}
