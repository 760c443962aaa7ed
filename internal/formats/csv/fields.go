package csv

import (
	"bytes"
	"errors"
)

// Fields are those of one record after another. It uses its memory again.
type Fields struct {
	of   *Dialect
	rest []byte // of the record, from the next field on; nil: there is none
	at   int    // of the record, where the last field began
	next int    // and where rest does
	buf  []byte // a field without its doubled quotes and escapes
}

// NewFields returns the fields of records of a dialect.
func NewFields(d *Dialect) *Fields { return &Fields{of: d} }

// Reset begins a record, which has at least one field.
func (f *Fields) Reset(record []byte) {
	f.rest, f.at, f.next = withoutEnd(record), 0, 0
	if f.of.Escape != 0 { // which may stand in front of what ends other lines
		end, _ := f.of.escapedEnd(record)
		f.rest = record[:end:end]
	}
}

// withoutEnd is a record without the end of its line.
func withoutEnd(record []byte) []byte {
	n := len(record)
	if n > 0 && record[n-1] == '\n' {
		n--
		if n > 0 && record[n-1] == '\r' {
			n--
		}
		return record[:n]
	}
	if n > 0 && record[n-1] == '\r' {
		n--
	}
	return record[:n:n]
}

// More reports whether there is a field.
func (f *Fields) More() bool { return f.rest != nil }

// At is where in the record the last field began.
func (f *Fields) At() int { return f.at }

var errAfterQuote = errors.New(
	`a quoted field goes on after its closing quote; within quotes, write a quote as ""`)

// Next returns the next field, which is valid until the next call.
func (f *Fields) Next() (text []byte, quoted bool, err error) {
	f.at = f.next
	rest, d := f.rest, f.of
	switch {
	case len(rest) > 0 && rest[0] == d.Quote && d.Quote != 0:
		text, err = f.quoted()
		return text, true, err
	case d.Escape != 0:
		return f.escaped(), false, nil
	}
	for i, c := range rest {
		if c == d.Delimiter {
			f.pass(i + 1)
			return rest[:i], false, nil
		}
	}
	f.rest = nil
	return rest, false, nil
}

func (f *Fields) pass(n int) {
	f.rest = f.rest[n:]
	f.next += n
}

// quoted reads a field that begins with a quote.
func (f *Fields) quoted() ([]byte, error) {
	rest, d := f.rest[1:], f.of
	copied, from := false, 0 // whether the field's begin is in buf, and where its rest begins
	f.buf = f.buf[:0]
	for i := 0; i < len(rest); i++ {
		if d.Escape == 0 { // to the next quote at once
			q := bytes.IndexByte(rest[i:], d.Quote)
			if q < 0 {
				break
			}
			i += q
		}
		switch c := rest[i]; {
		case c == d.Quote && i+1 < len(rest) && rest[i+1] == d.Quote, c == d.Escape && d.Escape != 0 && i+1 < len(rest):
			f.buf = append(append(f.buf, rest[from:i]...), rest[i+1])
			copied = true
			i++
			from = i + 1
		case c == d.Quote:
			text := rest[from:i]
			if copied {
				f.buf = append(f.buf, text...)
				text = f.buf
			}
			return text, f.close(i + 2)
		}
	}
	return nil, errOpenQuote
}

// close passes over the delimiter behind a quoted field of n bytes.
func (f *Fields) close(n int) error {
	switch {
	case n == len(f.rest):
		f.rest = nil
		return nil
	case f.rest[n] != f.of.Delimiter:
		return errAfterQuote
	}
	f.pass(n + 1)
	return nil
}

// escaped reads a field without quotes.
func (f *Fields) escaped() []byte {
	rest, d := f.rest, f.of
	f.buf = f.buf[:0]
	from := 0
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == d.Escape && i+1 < len(rest):
			f.buf = append(f.buf, rest[from:i]...)
			i++
			from = i // the character stands for itself
		case rest[i] == d.Delimiter:
			f.buf = append(f.buf, rest[from:i]...)
			f.pass(i + 1)
			return f.buf
		}
	}
	f.buf = append(f.buf, rest[from:]...)
	f.rest = nil
	return f.buf
}
