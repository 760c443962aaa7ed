package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// field is one value of a line. Its bytes are valid until the next line is read.
type field struct {
	text   []byte
	quoted bool
}

// null reports whether the field stands for no value: empty, unless it is an empty text in quotes.
func (f field) null() bool { return len(f.text) == 0 && !f.quoted }

// lines reads delimited text: fields with or without quotes, if there are any, which protect delimiters and line ends
// and are doubled to stand for themselves; lines that end with \n, \r\n or \r, in one file in any mixture. A quote
// inside a field that does not begin with one is an ordinary character.
type lines struct {
	in          io.Reader
	delimiter   byte
	quoting     byte   // the quote; 0 is none
	buf         []byte // read but not used: buf[from:to]
	from, to    int
	ended       bool // in has no more
	afterReturn bool // the line before ended with \r, to which a \n may belong that comes next
	line        int  // number, from 1, of the line that next returned last, where it begins
	following   int  // number of the next one
	scan        scan
	fields      []field
	again       bool // next returns the same line once more
	// Where the next ones of these lie in buf, as far as find has looked.
	feed, carriage, quote int
}

// scan is how far the end of a line with quotes has been looked for.
type scan struct {
	at    int // byte of the line
	state scanState
}

type scanState int

const (
	fieldStart scanState = iota
	unquoted
	inQuotes
	closingQuote // after a quote that closes the field, unless another one follows
	badQuote
)

// Bounds of what lines holds in memory.
const (
	firstBuffer = 1 << 18
	longestLine = 64 << 20
)

var (
	errAfterQuote = errors.New(
		`a quoted field goes on after its closing quote; inside of quotes, write a quote as ""`)
	errOpenQuote = errors.New("a quoted field does not end; if quotes mean nothing in this file, give --quote none")
)

func newLines(in io.Reader, delimiter, quote byte) *lines {
	return &lines{in: in, delimiter: delimiter, quoting: quote, buf: make([]byte, firstBuffer), following: 1}
}

// next returns the fields of the next line, or errEnd. Its errors are about the line of number l.line. An empty line is
// one null field.
func (l *lines) next() ([]field, error) {
	if l.again {
		l.again = false
		return l.fields, nil
	}
	l.line = l.following
	l.scan = scan{}
	for {
		l.skipFeed()
		end, err := l.findEnd()
		if err != nil {
			return nil, err
		}
		if end >= 0 {
			line := l.buf[l.from:end]
			l.afterReturn = end < l.to && l.buf[end] == '\r'
			l.from = min(end+1, l.to)
			l.following += 1 + lineEnds(line)
			l.split(line)
			return l.fields, nil
		}
		if l.ended {
			return nil, errEnd
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// skipFeed skips the \n of a \r\n whose \r ended the line before.
func (l *lines) skipFeed() {
	if !l.afterReturn || l.from == l.to {
		return
	}
	l.afterReturn = false
	if l.buf[l.from] == '\n' {
		l.from++
	}
}

// lineEnds counts those inside of quotes.
func lineEnds(line []byte) int {
	return bytes.Count(line, []byte{'\n'}) + bytes.Count(line, []byte{'\r'}) - bytes.Count(line, []byte("\r\n"))
}

// fill reads more.
func (l *lines) fill() error {
	l.to = copy(l.buf, l.buf[l.from:l.to])
	l.feed, l.carriage, l.quote = l.feed-l.from, l.carriage-l.from, l.quote-l.from
	l.from = 0
	if l.to == len(l.buf) {
		if len(l.buf) >= longestLine {
			return fmt.Errorf("the line is longer than %d MiB; does a quoted field not end?", longestLine>>20)
		}
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	n, err := l.in.Read(l.buf[l.to:])
	l.to += n
	if errors.Is(err, io.EOF) {
		l.ended = true
		return nil
	}
	return err
}

// find returns where in buf the next c lies, or l.to if there is none so far. place is where it was last time: so each
// byte is looked at once, however many lines there are before the next c.
func (l *lines) find(c byte, place *int) int {
	*place = max(*place, l.from)
	if *place < l.to && l.buf[*place] == c {
		return *place
	}
	i := bytes.IndexByte(l.buf[*place:l.to], c)
	if i < 0 {
		i = l.to - *place
	}
	*place += i
	return *place
}

// findEnd returns where in buf the line ends: the place of its \n or \r, or l.to for the last one. It is negative if
// buf does not hold the line's end, or if there is no more line.
func (l *lines) findEnd() (int, error) {
	s := &l.scan
	if s.at == 0 { // most lines have no quotes
		end := min(l.find('\n', &l.feed), l.find('\r', &l.carriage))
		if l.quoting == 0 || l.find(l.quoting, &l.quote) >= end {
			if end < l.to || l.ended && l.from < l.to {
				return end, nil
			}
			return -1, nil
		}
	}
	for ; l.from+s.at < l.to; s.at++ {
		c := l.buf[l.from+s.at]
		if (c == '\n' || c == '\r') && s.state != inQuotes {
			return l.from + s.at, nil
		}
		if s.state = l.step(s.state, c); s.state == badQuote {
			return -1, errAfterQuote
		}
	}
	switch {
	case !l.ended:
		return -1, nil
	case s.state == inQuotes:
		return -1, errOpenQuote
	}
	return l.to, nil
}

// step is the state after a character that does not end the line.
func (l *lines) step(state scanState, c byte) scanState {
	switch {
	case state == inQuotes && c == l.quoting:
		return closingQuote
	case state == inQuotes, (state == fieldStart || state == closingQuote) && c == l.quoting:
		return inQuotes
	case c == l.delimiter:
		return fieldStart
	case state == closingQuote:
		return badQuote
	}
	return unquoted
}

// split cuts a whole line into fields.
func (l *lines) split(line []byte) {
	l.fields = l.fields[:0]
	quotes := l.quoting != 0 && bytes.IndexByte(line, l.quoting) >= 0
	for {
		var f field
		rest := line
		if quotes && len(line) > 0 && line[0] == l.quoting {
			f.quoted = true
			f.text, rest = unquote(line[1:], l.quoting)
		}
		i := bytes.IndexByte(rest, l.delimiter)
		last := i < 0
		if last {
			i = len(rest)
		}
		if !f.quoted {
			f.text = rest[:i]
		}
		l.fields = append(l.fields, f)
		if last {
			return
		}
		line = rest[i+1:]
	}
}

// unquote takes what stands after an opening quote and returns the field's text and what follows the closing quote,
// which findEnd has seen. Doubled quotes are made single in place.
func unquote(b []byte, quote byte) (text, rest []byte) {
	from, to := 0, 0
	for {
		i := bytes.IndexByte(b[from:], quote)
		to += copy(b[to:], b[from:from+i])
		from += i + 1
		if from >= len(b) || b[from] != quote {
			return b[:to], b[from:]
		}
		b[to] = quote
		to++
		from++
	}
}
