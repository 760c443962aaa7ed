package filter

import (
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// atOperand reports whether an operand comes next: parentheses stand around operands and predicates.
func (p *parser) atOperand() bool {
	ahead := *p
	ahead.dividend()
	return ahead.err == nil
}

// operand reads a column or a hash, and the remainder that is taken of it.
func (p *parser) operand() Operand {
	o := p.dividend()
	if !p.take("%") {
		return o
	}
	if n := p.token.value.Int; p.token.kind != literalToken || n < 1 {
		p.expect("a positive integer: % gives the remainder of a division by it")
	} else if o.Modulus != 0 {
		p.expect("one % alone")
	} else {
		o.Modulus = n
	}
	p.advance()
	return o
}

func (p *parser) dividend() Operand {
	if p.take("(") {
		defer p.deeper()()
		o := p.operand()
		if !p.take(")") {
			p.expect("a closing parenthesis")
		}
		return o
	}
	if p.token.kind == literalToken {
		p.expect("a column's name first, then the literal (label == 1)")
	}
	if p.token.kind != nameToken {
		p.expect("a column's name, `not` or an opening parenthesis")
		return Operand{}
	}
	name := p.token
	p.advance()
	if p.at("(") {
		return p.call(name)
	}
	return Operand{Column: name.text}
}

// call reads what follows the name of a function.
func (p *parser) call(function token) Operand {
	switch {
	case is(function, "hash"):
		return p.hash()
	case is(function, "row"):
		p.token = function
		p.fail("row() is known to hash alone: hash(row(), 7) %% 100 < 90")
	default:
		p.token = function
		p.fail("no function %s; there is hash(column, seed), as in hash(user_id, 7) %% 100 < 90", function.raw)
	}
	return Operand{}
}

// is reports whether a token is a function's name, which is not in backticks.
func is(t token, function string) bool { return strings.EqualFold(t.raw, function) }

// hash reads (column, seed) or (row(), seed).
func (p *parser) hash() Operand {
	const want = "hash(column, seed) or hash(row(), seed), as in hash(user_id, 7)"
	o := Operand{Hashed: true}
	p.take("(")
	name := p.token
	if name.kind != nameToken {
		p.expect(want)
	}
	p.advance()
	switch {
	case !p.at("("):
		o.Column = name.text
	case !is(name, "row") || !p.take("(") || !p.take(")"):
		p.expect(want)
	}
	if !p.take(",") {
		p.expect("a comma and the seed: " + want)
	}
	if p.token.kind != literalToken || p.token.value.Kind != pb.Kind_INT64 {
		p.expect("the seed, an integer: " + want)
	}
	o.Seed = p.token.value.Int
	p.advance()
	if !p.take(")") {
		p.expect("a closing parenthesis: " + want)
	}
	return o
}
