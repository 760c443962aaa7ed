package filter

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
)

// Bounds of what Parse accepts.
const (
	MaxLength = 64 << 10 // bytes of text
	MaxDepth  = 64       // nested parentheses and nots
)

// SyntaxError says where a predicate is wrong.
type SyntaxError struct {
	Column  int // character of the text, from 1
	Message string
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// Parse reads a predicate. Its errors are *SyntaxError.
func Parse(text string) (*Expr, error) {
	if len(text) > MaxLength {
		return nil, &SyntaxError{1, fmt.Sprintf("the filter has %d bytes; the limit is %d", len(text), MaxLength)}
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, &SyntaxError{utf8.RuneCountInString(text[:i]) +
			1, `bytes that are not UTF-8; write them as \x and two hexadecimal digits`}
	}
	p := &parser{lexer: lexer{text: text}}
	p.advance()
	e := p.junction(Or)
	if p.err == nil && p.token.kind != endToken {
		p.expect("`and`, `or` or the end")
	}
	if p.err != nil {
		return nil, p.err
	}
	return e, nil
}

// ParsePartitions reads a predicate over the hive keys of files' paths, which have no rows.
func ParsePartitions(text string) (*Expr, error) {
	e, err := Parse(text)
	if err == nil && e.OfRows() {
		return nil, errors.New(
			"row() is a row's place, and partitions are whole files; write hash(row(), ...) into `filter`")
	}
	return e, err
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
	lexer lexer
	token token
	depth int
	err   error
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

func (p *parser) fail(format string, args ...any) {
	if p.err != nil {
		return
	}
	column := utf8.RuneCountInString(p.lexer.text[:p.token.at]) + 1
	p.err = &SyntaxError{column, fmt.Sprintf(format, args...)}
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

// at reports whether the symbol is next.
func (p *parser) at(symbol string) bool { return p.token.kind == symbolToken && p.token.text == symbol }

// take consumes the symbol if it is next.
func (p *parser) take(symbol string) bool {
	if !p.at(symbol) {
		return false
	}
	p.advance()
	return p.err == nil
}

// junction reads operands joined by op: Or binds weaker than And. Nested junctions of the same op are flattened.
func (p *parser) junction(op Op) *Expr {
	operand := p.negation
	if op == Or {
		operand = func() *Expr { return p.junction(And) }
	}
	first := operand()
	if !p.at(op.String()) {
		return first
	}
	e := &Expr{Op: op}
	for arg := first; p.err == nil; arg = operand() {
		if arg.Op == op {
			e.Args = append(e.Args, arg.Args...)
		} else {
			e.Args = append(e.Args, arg)
		}
		if !p.take(op.String()) {
			break
		}
	}
	return e
}

// deeper counts a level of nesting until what it returns is called.
func (p *parser) deeper() (back func()) {
	if p.depth++; p.depth > MaxDepth {
		p.fail("more than %d nested parentheses and nots", MaxDepth)
	}
	return func() { p.depth-- }
}

func (p *parser) negation() *Expr {
	defer p.deeper()()
	if p.take("not") {
		return &Expr{Op: Not, Args: []*Expr{p.negation()}}
	}
	if p.at("(") && !p.atOperand() {
		p.advance()
		e := p.junction(Or)
		if p.err == nil && !p.take(")") {
			p.expect("`and`, `or` or a closing parenthesis")
		}
		return e
	}
	return p.test()
}

func (p *parser) test() *Expr {
	e := &Expr{Operand: p.operand()}
	for _, op := range [...]Op{Eq, Ne, Lt, Le, Gt, Ge} {
		if p.take(op.String()) {
			e.Op = op
			e.Values = []Value{p.literal(e.Operand)}
			return e
		}
	}
	switch {
	case p.take("in"):
		e.Op, e.Values = In, p.set(e.Operand)
	case p.take("not"):
		e.Op = NotIn
		if !p.take("in") {
			p.expect("`in` after `not`")
			return nil
		}
		e.Values = p.set(e.Operand)
	case p.at("is") && e.Hashed:
		p.expect("a comparison: a hash is never null, not even that of null; test the column itself")
	case p.take("is"):
		e.Op = IsNull
		if p.take("not") {
			e.Op = IsNotNull
		}
		if !p.take("null") {
			p.expect("`is null` or `is not null`")
		}
	default:
		p.expect("one of ==, !=, <, <=, >, >=, in, not in, is null, is not null")
	}
	return e
}

func (p *parser) set(of Operand) []Value {
	if !p.take("(") {
		p.expect("a list of literals in parentheses")
		return nil
	}
	var values []Value
	for p.err == nil {
		values = append(values, p.literal(of))
		if p.take(")") {
			return values
		}
		if !p.take(",") {
			p.expect("a comma or a closing parenthesis")
		}
	}
	return values
}

// literal reads what an operand is compared with.
func (p *parser) literal(of Operand) Value {
	if of.Hashed && p.token.kind == literalToken && p.token.value.Kind != pb.Kind_INT64 {
		of.Modulus = 100
		p.expect("an integer, which a hash is; nine tenths of all keys have " + of.String() + " < 90")
	}
	if p.token.kind != literalToken {
		switch {
		case p.token.kind == symbolToken && p.token.text == "null":
			p.expect("a literal; nulls are found by `is null`")
		case p.token.kind == nameToken:
			p.expect(
				"a literal such as 1, 0.5, 'text' or true; text goes in quotes, and columns are not compared with " +
					"columns")
		default:
			p.expect("a literal such as 1, 0.5, 'text' or true")
		}
		return Value{}
	}
	v := p.token.value
	p.advance()
	return v
}
