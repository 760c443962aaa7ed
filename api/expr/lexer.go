package expr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	endToken     tokenKind = iota
	nameToken              // text is the name of a column or function, or a word such as `case`
	numberToken            // raw is one, without a sign
	literalToken           // value is set
	symbolToken            // text is an operator, a parenthesis, a comma or a keyword in lower case
)

type token struct {
	kind  tokenKind
	text  string
	value Value
	at    int    // byte of the source at which it starts
	raw   string // as written, for messages
}

// lexer splits the text of an expression into tokens.
type lexer struct {
	text string
	pos  int
}

func isNameStart(r rune) bool { return unicode.IsLetter(r) || r == '_' || r == '$' }
func isNamePart(r rune) bool  { return isNameStart(r) || unicode.IsDigit(r) || r == '.' }

func isKeyword(word string) bool {
	switch strings.ToLower(word) {
	case "and", "or", "not", "in", "is", "null", "true", "false":
		return true
	}
	return false
}

// next returns the next token. Its errors are about the text at its token's `at`.
func (l *lexer) next() (token, error) {
	l.pos += len(l.text[l.pos:]) - len(strings.TrimLeft(l.text[l.pos:], " \t\r\n"))
	t := token{at: l.pos}
	if l.pos == len(l.text) {
		return t, nil
	}
	err := l.scan(&t)
	t.raw = l.text[t.at:l.pos]
	return t, err
}

func (l *lexer) scan(t *token) error {
	rest := l.text[l.pos:]
	c, _ := utf8.DecodeRuneInString(rest)
	switch {
	case isNameStart(c):
		return l.word(t)
	case startsNumber(rest):
		return l.number(t)
	case c == '\'' || c == '"':
		return l.quoted(t, byte(c))
	case c == '`':
		return l.backticked(t)
	}
	return l.symbol(t)
}

func (l *lexer) word(t *token) error {
	word := l.run(isNamePart)
	t.kind, t.text = nameToken, word
	if isKeyword(word) {
		t.kind, t.text = symbolToken, strings.ToLower(word)
		if t.text == "true" || t.text == "false" {
			t.kind, t.value = literalToken, Bool(t.text == "true")
		}
	}
	return nil
}

// run takes the longest prefix of the rest whose runes all satisfy f.
func (l *lexer) run(f func(rune) bool) string {
	rest := l.text[l.pos:]
	n := strings.IndexFunc(rest, func(r rune) bool { return !f(r) })
	if n < 0 {
		n = len(rest)
	}
	l.pos += n
	return rest[:n]
}

func startsNumber(s string) bool {
	s = strings.TrimPrefix(s, ".")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

func (l *lexer) number(t *token) error {
	previous := rune(0)
	l.run(func(r rune) bool {
		sign := r == '+' || r == '-'
		ok := isNamePart(r) || sign && (previous == 'e' || previous == 'E')
		previous = r
		return ok
	})
	t.kind = numberToken
	return nil
}

// number reads a literal.
func number(raw string) (Value, error) {
	i, err := strconv.ParseInt(raw, 10, 64)
	if err == nil {
		return Int(i), nil
	}
	if errors.Is(err, strconv.ErrRange) && !strings.ContainsAny(raw, ".eE") {
		return Value{}, fmt.Errorf("integer %s does not fit in 64 bits", raw)
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil || strings.ContainsAny(raw, "_xXpP") {
		return Value{}, fmt.Errorf("found %s; want a number such as 1, -2.5 or 1e-3, or backticks around a column's "+
			"name", raw)
	}
	return Float64(f), nil
}

func (l *lexer) quoted(t *token, delimiter byte) error {
	t.kind = literalToken
	var b strings.Builder
	for i := l.pos + 1; i < len(l.text); i++ {
		switch c := l.text[i]; c {
		case delimiter:
			l.pos = i + 1
			t.value = Text(b.String())
			return nil
		case '\\':
			c, n, err := unescape(l.text[i+1:])
			if err != nil {
				return err
			}
			b.WriteByte(c)
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return fmt.Errorf("this text has no closing %c", delimiter)
}

// unescape reads what follows a backslash: the byte that it stands for and how long it is.
func unescape(s string) (c byte, n int, err error) {
	if s == "" {
		return 0, 0, errors.New("this text ends after a backslash")
	}
	switch s[0] {
	case '\\', '\'', '"':
		return s[0], 1, nil
	case 'n':
		return '\n', 1, nil
	case 'r':
		return '\r', 1, nil
	case 't':
		return '\t', 1, nil
	case 'x':
		if len(s) >= 3 {
			if b, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
				return byte(b), 3, nil
			}
		}
	}
	return 0, 0, fmt.Errorf(`this text has an unknown escape \%.3s; want \\, \', \", \n, \r, \t or \x and two hexadecimal digits`, s)
}

func (l *lexer) backticked(t *token) error {
	t.kind = nameToken
	var b strings.Builder
	for i := l.pos + 1; i < len(l.text); i++ {
		if l.text[i] != '`' {
			b.WriteByte(l.text[i])
			continue
		}
		if strings.HasPrefix(l.text[i+1:], "`") {
			b.WriteByte('`')
			i++
			continue
		}
		l.pos = i + 1
		t.text = b.String()
		if t.text == "" {
			return errors.New("found an empty column name")
		}
		return nil
	}
	return errors.New("this column name has no closing backtick")
}

func (l *lexer) symbol(t *token) error {
	t.kind = symbolToken
	rest := l.text[l.pos:]
	for _, s := range [...]struct{ written, text string }{
		{"==", "=="},
		{"!=", "!="},
		{"<>", "!="},
		{"<=", "<="},
		{">=", ">="},
		{"&&", "and"},
		{"||", "or"},
		{"=", "=="},
		{"<", "<"},
		{">", ">"},
		{"!", "not"},
		{"(", "("},
		{")", ")"},
		{",", ","},
		{"+", "+"},
		{"-", "-"},
		{"*", "*"},
		{"/", "/"},
		{"%", "%"},
	} {
		if strings.HasPrefix(rest, s.written) {
			t.text = s.text
			l.pos += len(s.written)
			return nil
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return fmt.Errorf("found %q, which is no part of the language; names with such characters go in backticks", r)
}
