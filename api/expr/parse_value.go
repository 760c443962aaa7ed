package expr

import (
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

func (p *parser) sum() *Node { return p.chain(p.product, Add, Sub) }

func (p *parser) product() *Node { return p.chain(p.signed, Mul, Div, Mod) }

// chain reads operands between ops that bind alike, from the left.
func (p *parser) chain(operand func() *Node, ops ...Op) *Node {
	n := operand()
	for p.err == nil {
		i := slices.IndexFunc(ops, func(op Op) bool { return p.sees(op.String()) })
		if i < 0 {
			break
		}
		next := p.node(ops[i], n, nil)
		p.advance()
		next.Args[1] = operand()
		n = next
	}
	return n
}

// signed reads a value with the signs before it.
func (p *parser) signed() *Node {
	at := p.at()
	if v, ok := p.literal(); ok || p.err != nil {
		return &Node{Op: Literal, Values: []Value{v}, At: at}
	}
	switch {
	case p.sees("-"):
		defer p.deeper()()
		n := p.node(Neg, nil)
		p.advance()
		n.Args[0] = p.signed()
		return n
	case p.sees("+"):
		defer p.deeper()()
		p.advance()
		return p.signed()
	}
	return p.primary()
}

func (p *parser) primary() *Node {
	if p.sees("(") {
		defer p.deeper()()
		p.advance()
		n := p.junction(Or)
		if p.err == nil && !p.take(")") {
			p.expect("an operator or a closing parenthesis")
		}
		return n
	}
	if p.sees("null") {
		p.expect("a value; null stands behind `is`, `then` and `else` alone")
	}
	if p.token.kind != nameToken {
		p.expect("a column's name, a literal such as 1, 0.5 or 'text', or a function")
		return p.node(Null)
	}
	name, n := p.token, p.node(Column)
	p.advance()
	switch {
	case p.sees("("):
		defer p.deeper()()
		p.call(n, name)
	case is(name, "case") && p.seesWord("when"):
		defer p.deeper()()
		p.cases(n)
	default:
		n.Name = name.text
	}
	return n
}

// cases reads what follows `case`.
func (p *parser) cases(n *Node) {
	n.Op = Case
	for p.takeWord("when") {
		n.Args = append(n.Args, p.junction(Or))
		if !p.takeWord("then") {
			p.expect("`then` and a value: case when x > 1 then 2 else 3 end")
		}
		n.Args = append(n.Args, p.value())
	}
	if p.takeWord("else") {
		n.Args = append(n.Args, p.value())
	}
	if !p.takeWord("end") {
		p.expect("`when`, `else` or `end`")
	}
}

// value reads one of a case.
func (p *parser) value() *Node {
	if !p.sees("null") {
		return p.junction(Or)
	}
	n := p.node(Null)
	p.advance()
	return n
}

// calls are the functions and how many arguments they take.
func calls() map[Op][2]int {
	const any = MaxLength
	return map[Op][2]int{
		Coalesce: {1, any}, NullIf: {2, 2}, Least: {1, any}, Greatest: {1, any}, Abs: {1, 1}, Floor: {1, 1},
		Ceil: {1, 1}, Round: {1, 1}, Sqrt: {1, 1}, Exp: {1, 1}, Ln: {1, 1}, Log1p: {1, 1}, Pow: {2, 2}, Length: {1, 1},
		OctetLength: {1, 1}, Lower: {1, 1}, Upper: {1, 1},
	}
}

// call reads what follows the name of a function, at which n stands.
func (p *parser) call(n *Node, name token) {
	switch {
	case is(name, "hash"):
		p.hash(n)
		return
	case is(name, "cast"):
		p.cast(n)
		return
	}
	op := Coalesce
	for op <= Upper && (op == Hash || !is(name, op.String())) {
		op++
	}
	if op > Upper {
		p.token = name
		p.unknown(name)
		return
	}
	n.Op = op
	p.take("(")
	for p.err == nil && !p.sees(")") {
		if n.Args = append(n.Args, p.junction(Or)); !p.take(",") {
			break
		}
	}
	if !p.sees(")") {
		p.expect("an operator, a comma or a closing parenthesis")
	}
	if takes := calls()[op]; p.err == nil && (len(n.Args) < takes[0] || len(n.Args) > takes[1]) {
		want := [...]string{"", "one argument", "two arguments"}[takes[0]]
		if takes[1] > takes[0] {
			want += " or more"
		}
		p.fail("%v has %d arguments; it takes %s", op, len(n.Args), want)
	}
	p.take(")")
}

// unknown says which functions there are.
func (p *parser) unknown(name token) {
	switch {
	case is(name, "row"):
		p.fail("row() is known to hash alone: hash(row(), 7) %% 100 < 90")
	case is(name, "log"):
		p.fail("log is the natural logarithm in some languages and that to the base 10 in others; write ln(x), or " +
			"ln(x) / ln(10)")
	}
	names := []string{"cast", "hash"}
	for op := range calls() {
		names = append(names, op.String())
	}
	slices.Sort(names)
	near := natural.Nearest(strings.ToLower(name.text), slices.Values(names))
	if near != "" {
		near = "nearest: " + near + "; "
	}
	p.fail("no function %s; %sthere are %s", name.raw, near, strings.Join(names, ", "))
}

// hash reads (expression, seed) or (row(), seed).
func (p *parser) hash(n *Node) {
	const want = "hash(expression, seed) or hash(row(), seed), as in hash(user_id, 7)"
	n.Op = Hash
	p.take("(")
	if p.seesWord("row") && p.seesCall() {
		n.Args = []*Node{p.node(Row)}
		p.advance()
		if !p.take("(") || !p.take(")") {
			p.expect("a closing parenthesis: " + want)
		}
	} else {
		n.Args = []*Node{p.junction(Or)}
	}
	if !p.take(",") {
		p.expect("a comma and the seed: " + want)
	}
	at := p.token
	seed, ok := p.literal()
	if p.err == nil && (!ok || seed.Kind != pb.Kind_INT64) {
		p.token = at
		p.expect("the seed, an integer: " + want)
	}
	n.Values = []Value{seed}
	if !p.take(")") {
		p.expect("a closing parenthesis: " + want)
	}
}

// seesCall reports whether an opening parenthesis follows the token.
func (p *parser) seesCall() bool {
	ahead := p.lexer
	t, err := ahead.next()
	return err == nil && t.kind == symbolToken && t.text == "("
}

// kinds are those that values can be cast to.
func kinds() []pb.Kind {
	return []pb.Kind{
		pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64, pb.Kind_BINARY,
	}
}

// cast reads (expression as kind).
func (p *parser) cast(n *Node) {
	const want = "bool, int32, int64, float32, float64 or text"
	n.Op = Cast
	p.take("(")
	n.Args = []*Node{p.junction(Or)}
	if !p.takeWord("as") {
		p.expect("`as` and a type: cast(x as float32)")
	}
	for _, k := range kinds() {
		if p.seesWord(KindName(k)) {
			n.To = k
		}
	}
	if n.To == pb.Kind_KIND_UNSPECIFIED {
		p.expect(want)
	}
	p.advance()
	if !p.take(")") {
		p.expect("a closing parenthesis")
	}
}
