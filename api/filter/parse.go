package filter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// Parse reads a predicate. Its errors are *expr.SyntaxError.
func Parse(text string) (*Expr, error) {
	n, err := expr.Parse(text)
	if err != nil {
		return nil, err
	}
	return Of(n), nil
}

// ParsePartitions reads a predicate over the hive keys of files' paths, which have no rows.
func ParsePartitions(text string) (*Expr, error) {
	e, err := Parse(text)
	switch {
	case err != nil:
		return nil, err
	case e.OfRows():
		return nil, errors.New(
			"row() is a row's place, and partitions are whole files; write hash(row(), ...) into `filter`")
	}
	if cond := e.firstHolds(); cond != nil {
		return nil, fmt.Errorf("%v is computed, and partitions are chosen by tests of their keys, such as "+
			"day >= '2026-01-01'; write it into `filter`, with a column in place of the key", cond)
	}
	return e, nil
}

// firstHolds is a condition that no test stands for, nil if there is none.
func (e *Expr) firstHolds() *expr.Node {
	if e.Op == Holds {
		return e.Cond
	}
	for _, arg := range e.Args {
		if cond := arg.firstHolds(); cond != nil {
			return cond
		}
	}
	return nil
}

// Of makes tests of one operand of what are such, junctions of what joins them, and conditions of all else.
func Of(n *expr.Node) *Expr {
	switch n.Op {
	case expr.And, expr.Or, expr.Not:
		e := &Expr{Op: Op(n.Op)}
		for _, arg := range n.Args {
			made := Of(arg)
			if made.Op == e.Op && e.Op != Not {
				e.Args = append(e.Args, made.Args...)
			} else {
				e.Args = append(e.Args, made)
			}
		}
		return e
	case expr.Eq, expr.Ne, expr.Lt, expr.Le, expr.Gt, expr.Ge:
		if e := comparison(Op(n.Op), n.Args[0], n.Args[1]); e != nil {
			return e
		}
		if e := comparison(mirrored(Op(n.Op)), n.Args[1], n.Args[0]); e != nil {
			return e
		}
	case expr.Between:
		low, high := comparison(Ge, n.Args[0], n.Args[1]), comparison(Le, n.Args[0], n.Args[2])
		if low != nil && high != nil {
			return &Expr{Op: And, Args: []*Expr{low, high}}
		}
	case expr.In, expr.NotIn, expr.IsNull, expr.IsNotNull:
		o, ok := operand(n.Args[0])
		if fraction := func(v expr.Value) bool { return v.Kind != pb.Kind_INT64 }; o.Hashed {
			ok = ok && !slices.ContainsFunc(n.Values, fraction) // a mistake of which Check says more
		}
		if isSet := n.Op == expr.In || n.Op == expr.NotIn; ok && (isSet || !o.Hashed) {
			return &Expr{Op: Op(n.Op), Operand: o, Values: n.Values}
		}
	}
	return &Expr{Op: Holds, Cond: n}
}

// comparison is the test of an operand by a literal, nil if it is none.
func comparison(op Op, left, right *expr.Node) *Expr {
	o, ok := operand(left)
	if !ok || right.Op != expr.Literal {
		return nil
	}
	v := right.Values[0]
	if o.Hashed && v.Kind != pb.Kind_INT64 {
		return nil
	}
	return &Expr{Op: op, Operand: o, Values: []expr.Value{v}}
}

// mirrored is the op that says of (b, a) what this one says of (a, b).
func mirrored(op Op) Op {
	switch op {
	case Lt:
		return Gt
	case Le:
		return Ge
	case Gt:
		return Lt
	case Ge:
		return Le
	}
	return op
}

// operand is what tests look at, if the node is such.
func operand(n *expr.Node) (o Operand, ok bool) {
	if n.Op == expr.Mod {
		divisor := n.Args[1]
		if divisor.Op != expr.Literal || divisor.Values[0].Int < 1 {
			return o, false
		}
		o.Modulus, n = divisor.Values[0].Int, n.Args[0]
	}
	if n.Op == expr.Hash {
		o.Hashed, o.Seed, n = true, n.Values[0].Int, n.Args[0]
		if n.Op == expr.Row {
			return o, true
		}
	}
	o.Column = n.Name
	return o, n.Op == expr.Column
}
