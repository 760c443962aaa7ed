package reference

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// test is what an expression that is true, false or unknown is of one row.
type test func(in []*cell, at place) truth

func madeTruth(n *expr.Node, args []formula) (formula, error) {
	t, err := testOf(n, args)
	return formula{kind: pb.Kind_BOOL, of: func(in []*cell, at place) scalarValue { return truthValue(t(in, at)) }}, err
}

func testOf(n *expr.Node, args []formula) (test, error) {
	switch n.Op {
	case expr.And, expr.Or, expr.Not:
		for _, a := range args {
			if a.kind != pb.Kind_BOOL {
				return nil, fmt.Errorf("a condition is %v", a.kind)
			}
		}
		return func(in []*cell, at place) truth {
			low, high := yes, no
			for _, a := range args {
				t := a.of(in, at).truth()
				low, high = min(low, t), max(high, t)
			}
			return map[expr.Op]truth{expr.And: low, expr.Or: high, expr.Not: yes - low}[n.Op]
		}, nil
	case expr.IsNull, expr.IsNotNull:
		if args[0].hash {
			return nil, errors.New("a hash is never null")
		}
		return func(in []*cell, at place) truth {
			return truthOf(args[0].of(in, at).null == (n.Op == expr.IsNull))
		}, nil
	case expr.In, expr.NotIn:
		return member(n, args[0])
	case expr.Between:
		low, err1 := compared(expr.Ge, args[0], args[1])
		high, err2 := compared(expr.Le, args[0], args[2])
		return func(in []*cell, at place) truth { return min(low(in, at), high(in, at)) }, errors.Join(err1, err2)
	}
	return compared(n.Op, args[0], args[1])
}

func member(n *expr.Node, of formula) (test, error) {
	var equal []test
	for _, v := range n.Values {
		one := formula{kind: v.Kind, constant: true, of: func([]*cell, place) scalarValue { return literal(v) }}
		t, err := compared(expr.Eq, of, one)
		if err != nil {
			return nil, err
		}
		equal = append(equal, t)
	}
	return func(in []*cell, at place) truth {
		found := no
		for _, t := range equal {
			found = max(found, t(in, at))
		}
		if n.Op == expr.NotIn {
			return yes - found
		}
		return found
	}, nil
}

func (f formula) ofHash() bool { return f.hash || f.remainder }

// compared compares exactly, but for constants with a fraction that meet float32: these are rounded, if they fit.
func compared(op expr.Op, a, b formula) (test, error) {
	numbers := isNumeric(a.kind) && isNumeric(b.kind)
	switch equality := op == expr.Eq || op == expr.Ne; {
	case !numbers && a.kind != b.kind, !numbers && a.kind == pb.Kind_BOOL && !equality:
		return nil, fmt.Errorf("%v compared with %v", a.kind, b.kind)
	case (a.ofHash() && b.constant || b.ofHash() && a.constant) && holdingOf(a.kind) != holdingOf(b.kind):
		return nil, errors.New("a hash compared with a fraction")
	}
	return func(in []*cell, at place) truth {
		x, y := a.of(in, at), b.of(in, at)
		if x.null || y.null {
			return unknown
		}
		if !numbers {
			return truthOf(signHolds(op, strings.Compare(x.t, y.t)+int(x.n-y.n)))
		}
		p, q := exact(x, a, b), exact(y, b, a)
		if p == nil || q == nil {
			return truthOf(op == expr.Ne)
		}
		return truthOf(signHolds(op, p.Cmp(q)))
	}, nil
}

func signHolds(op expr.Op, sign int) bool {
	switch op {
	case expr.Eq:
		return sign == 0
	case expr.Ne:
		return sign != 0
	case expr.Lt:
		return sign < 0
	case expr.Le:
		return sign <= 0
	case expr.Gt:
		return sign > 0
	}
	return sign >= 0
}

// exact is a number beside which another formula's stands; nil: NaN.
func exact(v scalarValue, f, beside formula) *big.Float {
	if isInt(f.kind) {
		return new(big.Float).SetInt64(v.n)
	}
	if narrow := float64(float32(v.x)); f.constant && beside.kind == pb.Kind_FLOAT32 && !math.IsInf(narrow, 0) {
		v.x = narrow
	}
	if v.x != v.x {
		return nil
	}
	return big.NewFloat(v.x)
}
