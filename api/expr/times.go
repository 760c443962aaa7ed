package expr

import (
	"fmt"
	"math/big"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/times"
)

// Timed is the expression with integers in place of text that is compared with columns of times. unitOf says what a
// column counts. Times between two of its integers, or beyond 64 bits, become numbers that compare alike. Text that is
// no time is a *SyntaxError.
func (n *Node) Timed(unitOf func(column string) times.Unit) (*Node, error) {
	t := timer{unitOf: unitOf}
	out := t.node(n)
	return out, t.err
}

type timer struct {
	unitOf func(column string) times.Unit
	err    error
}

func (t *timer) node(n *Node) *Node {
	if n.Op == Between && isText(n.Args[0]) { // whose bounds may count in two units
		n = &Node{Op: And, At: n.At, Args: []*Node{
			{Op: Ge, At: n.At, Args: n.Args[:2]}, {Op: Le, At: n.At, Args: []*Node{n.Args[0], n.Args[2]}},
		}}
	}
	out := *n
	if len(n.Args) > 0 {
		out.Args = make([]*Node, len(n.Args))
	}
	for i, arg := range n.Args {
		out.Args[i] = t.node(arg)
	}
	switch n.Op {
	case Eq, Ne, NullIf:
		t.meet(&out, 0, 1, exactly)
		t.meet(&out, 1, 0, exactly)
	case Lt, Ge:
		t.meet(&out, 0, 1, up)
		t.meet(&out, 1, 0, down)
	case Le, Gt:
		t.meet(&out, 0, 1, down)
		t.meet(&out, 1, 0, up)
	case Between:
		t.meet(&out, 0, 1, up)
		t.meet(&out, 0, 2, down)
	case In, NotIn:
		out.Values = make([]Value, len(n.Values))
		for i, v := range n.Values {
			out.Values[i] = t.value(n.Args[0], v, n.At, exactly)
		}
	}
	return &out
}

// meet replaces the literal among the arguments of a comparison, if the other one is a column of times.
func (t *timer) meet(n *Node, column, literal int, round rounding) {
	if len(n.Args) <= max(column, literal) { // a mistake that Parse has found
		return
	}
	if lit := n.Args[literal]; isText(lit) {
		v := t.value(n.Args[column], lit.Values[0], lit.At, round)
		n.Args[literal] = &Node{Op: Literal, Values: []Value{v}, At: lit.At}
	}
}

func isText(n *Node) bool { return n.Op == Literal && n.Values[0].Kind == pb.Kind_BINARY }

func (t *timer) value(column *Node, v Value, at int, round rounding) Value {
	if column.Op != Column || v.Kind != pb.Kind_BINARY {
		return v
	}
	unit := t.unitOf(column.Name)
	if unit == "" {
		return v
	}
	when, err := times.Parse(v.Text)
	if err != nil {
		if t.err == nil {
			t.err = &SyntaxError{at, fmt.Sprintf("%s is %v, but is compared with %.60v; want a time that there is, "+
				"such as '%s'", ColumnName(column.Name), unit, v, unit.Example())}
		}
		return v
	}
	whole, between := unit.Count(when)
	return counted(whole, between, round)
}

// rounding says which number of a unit stands for a time between two of them.
type rounding uint8

const (
	exactly rounding = iota // none: the number equals no integer
	down                    // as `<=` and `>` need it
	up                      // as `<` and `>=` need it
)

// counted is the number that compares with integers of a unit as the time does of which they count so many.
func counted(whole *big.Int, between bool, round rounding) Value {
	switch {
	case between && round == exactly:
		return Float64(0.5)
	case between && round == up:
		whole.Add(whole, big.NewInt(1))
	}
	if !whole.IsInt64() { // all integers lie on one side
		return Float64(float64(whole.Sign()) * 1e19)
	}
	return Int(whole.Int64())
}
