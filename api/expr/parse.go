package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of what Parse accepts.
const (
	MaxLength = 64 << 10 // bytes of text
	MaxDepth  = 64       // nested parentheses, functions, cases and nots
)

// SyntaxError says where an expression is wrong.
type SyntaxError struct {
	Column  int // character of the text, from 1
	Message string
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// Parse reads an expression. Its errors are *SyntaxError.
func Parse(text string) (*Node, error) {
	if len(text) > MaxLength {
		return nil, &SyntaxError{1, fmt.Sprintf("the text has %d bytes; the limit is %d", len(text), MaxLength)}
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, &SyntaxError{utf8.RuneCountInString(text[:i]) +
			1, `bytes that are not UTF-8; write them as \x and two hexadecimal digits`}
	}
	p := &parser{lexer: lexer{text: text}}
	p.advance()
	n := p.junction(Or)
	if p.err == nil && p.token.kind != endToken {
		p.expect("an operator, `and`, `or` or the end")
	}
	if p.err != nil {
		return nil, p.err
	}
	return n, nil
}

func invalidUTF8(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

// parser descends recursively. After its first error every method returns at once, and results are not used.
type parser struct {
	lexer  lexer
	token  token
	depth  int
	err    error
	column int // of the token, as far as it was asked for
	passed int // bytes of the text that column counts
}

func (p *parser) advance() {
	if p.err != nil {
		return
	}
	t, err := p.lexer.next()
	p.token = t
	if err != nil {
		p.fail("%v", err)
	}
}

// at is the character at which the token starts, from 1. Tokens are asked in the text's order, or from its begin.
func (p *parser) at() int {
	if p.token.at < p.passed {
		p.column, p.passed = 0, 0
	}
	p.column += utf8.RuneCountInString(p.lexer.text[p.passed:p.token.at])
	p.passed = p.token.at
	return p.column + 1
}

func (p *parser) fail(format string, args ...any) {
	if p.err != nil {
		return
	}
	p.err = &SyntaxError{p.at(), fmt.Sprintf(format, args...)}
	p.token = token{at: p.token.at}
}

// expect fails because the token is none of what is wanted.
func (p *parser) expect(want string) {
	found := p.token.raw
	if p.token.kind == endToken {
		found = "the end"
	}
	p.fail("found %s; want %s", found, want)
}

// node makes a node of what begins at the token.
func (p *parser) node(op Op, args ...*Node) *Node { return &Node{Op: op, Args: args, At: p.at()} }

// sees reports whether the symbol is next.
func (p *parser) sees(symbol string) bool {
	return p.token.kind == symbolToken && p.token.text == symbol
}

// take consumes the symbol if it is next.
func (p *parser) take(symbol string) bool {
	if !p.sees(symbol) {
		return false
	}
	p.advance()
	return p.err == nil
}

// seesWord reports whether a word is next that means something at this place alone, and is a column's name elsewhere.
func (p *parser) seesWord(word string) bool { return p.token.kind == nameToken && is(p.token, word) }

func (p *parser) takeWord(word string) bool {
	if !p.seesWord(word) {
		return false
	}
	p.advance()
	return p.err == nil
}

// is reports whether a token is the word, which is not in backticks.
func is(t token, word string) bool { return strings.EqualFold(t.raw, word) }

// junction reads operands joined by op: Or binds weaker than And. Nested junctions of the same op are flattened.
func (p *parser) junction(op Op) *Node {
	operand := p.negation
	if op == Or {
		operand = func() *Node { return p.junction(And) }
	}
	first := operand()
	if !p.sees(op.String()) {
		return first
	}
	n := p.node(op)
	for arg := first; p.err == nil; arg = operand() {
		if arg.Op == op {
			n.Args = append(n.Args, arg.Args...)
		} else {
			n.Args = append(n.Args, arg)
		}
		if !p.take(op.String()) {
			break
		}
	}
	return n
}

// deeper counts a level of nesting until what it returns is called.
func (p *parser) deeper() (back func()) {
	if p.depth++; p.depth > MaxDepth {
		p.fail("more than %d nested parentheses and nots", MaxDepth)
	}
	return func() { p.depth-- }
}

func (p *parser) negation() *Node {
	if !p.sees("not") {
		return p.test()
	}
	defer p.deeper()()
	n := p.node(Not, nil)
	p.advance()
	n.Args[0] = p.negation()
	return n
}

// test reads a sum, and what is asked of it, if anything.
func (p *parser) test() *Node {
	left := p.sum()
	for _, op := range [...]Op{Eq, Ne, Lt, Le, Gt, Ge} {
		if !p.sees(op.String()) {
			continue
		}
		n := p.node(op, left, nil)
		p.advance()
		if p.sees("null") {
			p.expect("a literal or a column; nulls are found by `is null`")
		}
		n.Args[1] = p.sum()
		return n
	}
	switch {
	case p.sees("in"), p.seesWord("between"), p.sees("not"):
		return p.among(left)
	case p.sees("is"):
		n := p.node(IsNull, left)
		p.advance()
		if p.take("not") {
			n.Op = IsNotNull
		}
		if !p.take("null") {
			p.expect("`is null` or `is not null`")
		}
		return n
	}
	return left
}

// among reads `in` a set and `between` bounds, and what is not so.
func (p *parser) among(left *Node) *Node {
	n := p.node(In, left)
	negated := p.take("not")
	switch {
	case p.take("in"):
		if n.Values = p.set(); negated {
			n.Op = NotIn
		}
		return n
	case !p.takeWord("between"):
		p.expect("`in` or `between` after `not`")
		return n
	}
	low := p.sum()
	if !p.take("and") {
		p.expect("`and` and the upper bound: x between 1 and 10")
	}
	n.Op, n.Args = Between, []*Node{left, low, p.sum()}
	if negated {
		return &Node{Op: Not, Args: []*Node{n}, At: n.At}
	}
	return n
}

func (p *parser) set() []Value {
	if !p.take("(") {
		p.expect("a list of literals in parentheses")
		return nil
	}
	var values []Value
	for p.err == nil {
		v, ok := p.literal()
		if !ok {
			p.expect("a literal such as 1, 0.5, 'text' or true")
		}
		values = append(values, v)
		if p.take(")") {
			return values
		}
		if !p.take(",") {
			p.expect("a comma or a closing parenthesis")
		}
	}
	return values
}

// literal reads one, if one is next.
func (p *parser) literal() (v Value, ok bool) {
	sign := ""
	if (p.sees("-") || p.sees("+")) && p.seesNumber() {
		sign = p.token.raw
		p.advance()
	}
	switch p.token.kind {
	case numberToken:
		var err error
		if v, err = number(sign + p.token.raw); err != nil {
			p.fail("%v", err)
		}
	case literalToken:
		v = p.token.value
	default:
		return v, false
	}
	p.advance()
	return v, true
}

// seesNumber reports whether a number follows the token.
func (p *parser) seesNumber() bool {
	ahead := p.lexer
	t, err := ahead.next()
	return err == nil && t.kind == numberToken
}
