package jsonl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Scanner reads one record, value by value, from At on. It checks what it is asked for; of what it skips, no more than
// it takes to find the end.
type Scanner struct {
	Data []byte
	At   int

	text   []byte // of a string that has escapes
	number Number // that was read last
	stack  []uint64
}

// maxDepth bounds the lists and objects within each other.
const maxDepth = 1024

// Error is what is wrong at a byte of a record.
type Error struct {
	At   int
	What string
}

// Error says both.
func (e *Error) Error() string { return fmt.Sprintf("byte %d of it: %s", e.At, e.What) }

func (s *Scanner) wrong(at int, what string) error { return &Error{at, what} }

// Peek passes over blanks, and returns the byte that follows; 0: there is none.
func (s *Scanner) Peek() byte {
	for ; s.At < len(s.Data); s.At++ {
		switch c := s.Data[s.At]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// Pass passes over a byte that must follow, behind blanks.
func (s *Scanner) Pass(want byte) error {
	if got := s.Peek(); got != want {
		return s.Unexpected(fmt.Sprintf("%q", want))
	}
	s.At++
	return nil
}

// Unexpected is the error of something else than what is wanted.
func (s *Scanner) Unexpected(want string) error {
	if s.Peek() == 0 && s.At == len(s.Data) {
		return &Error{s.At, "it ends where " + want + " is wanted"}
	}
	r, _ := utf8.DecodeRune(s.Data[s.At:])
	return &Error{s.At, fmt.Sprintf("%q where %s is wanted", r, want)}
}

// Literal reports whether a word follows, and passes over it.
func (s *Scanner) Literal(word string) bool {
	end := s.At + len(word)
	if end > len(s.Data) || string(s.Data[s.At:end]) != word {
		return false
	}
	s.At = end
	return true
}

// What stands in a string beside plain text.
const (
	escaped = 1 << iota // escapes
	wide                // bytes beyond ASCII
)

const (
	each = 0x0101010101010101
	high = 0x8080808080808080
)

// span finds the end of the string that begins at the quote at At, behind which At is then, and what it has in it.
func (s *Scanner) span() (from, to int, has uint8, err error) {
	data, i := s.Data, s.At+1
	from = i
	for {
		for ; i+8 <= len(data); i += 8 {
			w := binary.LittleEndian.Uint64(data[i:])
			quote, slash := w^(each*'"'), w^(each*'\\')
			found := ((quote-each)&^quote | (slash-each)&^slash | (w-each*' ')&^w) & high
			if found != 0 {
				n := bits.TrailingZeros64(found) &^ 7
				if w&high&(1<<n-1) != 0 {
					has |= wide
				}
				i += n >> 3
				break
			}
			if w&high != 0 {
				has |= wide
			}
		}
		for i < len(data) && data[i] >= ' ' && data[i] != '"' && data[i] != '\\' { // fewer than eight are left
			if data[i] >= utf8.RuneSelf {
				has |= wide
			}
			i++
		}
		switch {
		case i >= len(data):
			return 0, 0, 0, s.wrong(len(data), "it ends inside of a string")
		case data[i] == '"':
			s.At = i + 1
			return from, i, has, nil
		case data[i] < ' ':
			what := fmt.Sprintf("a string has the control character %q, which must be escaped", data[i])
			return 0, 0, 0, s.wrong(i, what)
		}
		has |= escaped
		if i += 2; i > len(data) {
			i = len(data)
		}
	}
}

// Text reads the string that begins at At. It is valid until the next call.
func (s *Scanner) Text() ([]byte, error) {
	from, to, has, err := s.span()
	if err != nil {
		return nil, err
	}
	text := s.Data[from:to]
	if has&wide != 0 && !utf8.Valid(text) {
		return nil, s.wrong(from+validBytes(text), "it is not UTF-8")
	}
	if has&escaped == 0 {
		return text, nil
	}
	return s.unescape(from, to)
}

// validBytes is how many bytes of a text are valid in front of the first that is not.
func validBytes(text []byte) (n int) {
	for n < len(text) {
		r, size := utf8.DecodeRune(text[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

func (s *Scanner) unescape(from, to int) ([]byte, error) {
	out, data := s.text[:0], s.Data[:to]
	for i := from; i < to; {
		if data[i] != '\\' {
			out = append(out, data[i])
			i++
			continue
		}
		i++
		switch c := data[i]; c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, n := unicode(data[i-1:])
			if n == 0 {
				return nil, s.wrong(i-1, "an escape that is no character, or half of one")
			}
			out = utf8.AppendRune(out, r)
			i += n - 2
		default:
			return nil, s.wrong(i-1, fmt.Sprintf("the escape \\%c, which JSON does not have", c))
		}
		i++
	}
	s.text = out
	return out, nil
}

// unicode reads \uXXXX, or two of them that are halves of a character, and tells how many bytes that are; 0: it is
// neither.
func unicode(data []byte) (r rune, n int) {
	r, ok := hex(data)
	if !ok || !utf16.IsSurrogate(r) {
		return r, map[bool]int{true: 6}[ok]
	}
	low, ok := hex(data[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

func hex(data []byte) (r rune, ok bool) {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	for _, c := range data[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

var errNoValue = errors.New("a value")

// Skip passes over the value that begins at At.
func (s *Scanner) Skip() error {
	switch c := s.Peek(); c {
	case '"':
		_, _, _, err := s.span()
		return err
	case '{', '[':
		return s.skipAll()
	default:
		return s.skipPlain(c)
	}
}

// skipPlain passes over what is neither a string nor a list nor an object.
func (s *Scanner) skipPlain(c byte) error {
	switch {
	case c == '-' || c >= '0' && c <= '9' || c == 'N' || c == 'I':
		_, err := s.Number()
		return err
	case s.Literal("null"), s.Literal("true"), s.Literal("false"):
		return nil
	}
	return s.Unexpected(errNoValue.Error())
}

// skipAll passes over a list or an object, by its brackets and strings.
func (s *Scanner) skipAll() error {
	s.stack = append(s.stack[:0], 0)
	for depth := 0; s.At < len(s.Data); {
		switch c := s.Data[s.At]; c {
		case '"':
			if _, _, _, err := s.span(); err != nil {
				return err
			}
			continue
		case '{', '[':
			if depth == maxDepth {
				return s.wrong(s.At, fmt.Sprintf("lists and objects within each other are deeper than %d", maxDepth))
			}
			if depth&63 == 0 {
				s.stack = append(s.stack[:depth>>6], 0)
			}
			if c == '{' {
				s.stack[depth>>6] |= 1 << (depth & 63)
			} else {
				s.stack[depth>>6] &^= 1 << (depth & 63)
			}
			depth++
		case '}', ']':
			depth--
			if s.stack[depth>>6]>>(depth&63)&1 != 0 != (c == '}') {
				return s.wrong(s.At, fmt.Sprintf("%q closes what something else opened", c))
			}
			if depth == 0 {
				s.At++
				return nil
			}
		}
		s.At++
	}
	return s.wrong(s.At, "it ends inside of a list or an object")
}

// All has each read what stands between two brackets, of which the first is at At, one behind the other.
func (s *Scanner) All(open, end byte, each func() error) error {
	if err := s.Pass(open); err != nil {
		return err
	}
	if s.Peek() == end {
		s.At++
		return nil
	}
	for {
		if err := each(); err != nil {
			return err
		}
		switch s.Peek() {
		case ',':
			s.At++
		case end:
			s.At++
			return nil
		default:
			return s.Unexpected(fmt.Sprintf("%q or %q", ',', end))
		}
	}
}
