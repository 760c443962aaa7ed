package csv

import (
	"bytes"
	"errors"
)

var errOpenQuote = errors.New("a quoted field does not end; if quotes mean nothing in this file, say " +
	`dataset.format.quote: ""`)

// Cut measures the record that data begins with; see records.Opened. Lines end with \n, \r\n or \r, in one file in any
// mixture, but not within quotes.
func (d *Dialect) Cut(data []byte, _ int64, end bool) (n int, row bool, err error) {
	if len(data) == 0 {
		return 0, false, nil
	}
	comment := d.Comment != 0 && data[0] == d.Comment
	at, quoted := d.lineEnd(data, comment)
	switch {
	case quoted && end:
		return 0, false, errOpenQuote
	case at == len(data) && !end:
		return 0, false, nil
	}
	if n = at; at < len(data) {
		n++
		if data[at] == '\r' {
			switch {
			case n < len(data) && data[n] == '\n':
				n++
			case n == len(data) && !end:
				return 0, false, nil
			}
		}
	}
	return n, !comment && (at > 0 || d.Blank), nil
}

// lineEnd is where a line ends, which is len(data) if data has no end of it; quoted: data ends within quotes.
func (d *Dialect) lineEnd(data []byte, comment bool) (at int, quoted bool) {
	if d.Escape != 0 && !comment {
		return d.escapedEnd(data)
	}
	end := endOf(data)
	if d.Quote == 0 || comment {
		return end, false
	}
	for from := 0; ; {
		q := bytes.IndexByte(data[from:end], d.Quote)
		if q < 0 {
			return end, false
		}
		q += from
		if from = q + 1; q > 0 && data[q-1] != d.Delimiter { // is an ordinary character
			continue
		}
		for {
			closing := bytes.IndexByte(data[from:], d.Quote)
			if closing < 0 {
				return len(data), true
			}
			if from += closing + 1; from == len(data) || data[from] != d.Quote {
				break
			}
			from++
		}
		if from > end {
			end = from + endOf(data[from:])
		}
	}
}

// firstLook is how far a line's end is looked for first: so a search costs as much as the line is long, whichever of
// its ends the file has.
const firstLook = 256

// endOf is where the first end of a line is; len(data): nowhere.
func endOf(data []byte) int {
	for from, look := 0, firstLook; from < len(data); look *= 2 {
		part := data[from:min(from+look, len(data))]
		feed := bytes.IndexByte(part, '\n')
		if feed >= 0 {
			part = part[:feed]
		}
		if carriage := bytes.IndexByte(part, '\r'); carriage >= 0 {
			return from + carriage
		}
		if feed >= 0 {
			return from + feed
		}
		from += len(part)
	}
	return len(data)
}

// escapedEnd is lineEnd, byte by byte.
func (d *Dialect) escapedEnd(data []byte) (at int, quoted bool) {
	begins, closed := true, false // a field begins; a quote closed it
	for at = 0; at < len(data); at++ {
		switch c := data[at]; {
		case c == d.Escape:
			at++
			begins, closed = false, false
		case quoted:
			closed = c == d.Quote
			quoted = !closed
		case c == '\n' || c == '\r':
			return at, false
		case c == d.Quote && d.Quote != 0 && (begins || closed):
			quoted, begins, closed = true, false, false
		default:
			begins, closed = c == d.Delimiter, false
		}
	}
	return len(data), quoted
}

// Begin is where a file's first record begins: behind a byte order mark.
func Begin(data []byte) int {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return 3
	}
	return 0
}
