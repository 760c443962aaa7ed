package reference

import (
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// scalarValue is what an expression is of one row: n of bools (0 and 1) and integers, x of floats, t of text.
type scalarValue struct {
	null bool
	n    int64
	x    float64
	t    string
}

// none is null.
func none() scalarValue { return scalarValue{null: true} }

func truthValue(t truth) scalarValue {
	if t == unknown {
		return none()
	}
	return scalarValue{n: boolInt(t == yes)}
}

func (v scalarValue) truth() truth {
	if v.null {
		return unknown
	}
	return truthOf(v.n != 0)
}

// formula is an expression of a kind, by the cells of its columns.
type formula struct {
	kind pb.Kind
	of   func(in []*cell, at place) scalarValue
	// constant is set for literals and arithmetic of them, which take the kind of what they meet.
	constant bool
	// hash is set for hashes, and remainder for what a division of one leaves: neither is compared with fractions.
	hash, remainder bool
}

// expressionOf is the text that names a transform's inputs.
func expressionOf(t *pb.Transform) string {
	switch t.GetOp() {
	case "expr":
		return t.GetParams()["expr"].GetText()
	case "sample":
		return t.GetParams()["where"].GetText()
	}
	return ""
}

// derived is the op expr.
func derived(p parameters, in []spec.Type) (operation, error) {
	f, err := overInputs(p["expr"].GetText(), in)
	if err != nil {
		return operation{}, err
	}
	return operation{out: spec.Type{Kind: f.kind}, run: func(in []*cell, out *cell) error {
		v := f.of(in, place{})
		if out.null = v.null; v.null {
			return nil
		}
		switch holdingOf(f.kind) {
		case storedInts:
			out.ints = append(out.ints, v.n)
		case storedFloats:
			out.floats = append(out.floats, v.x)
		default:
			out.texts = append(out.texts, []byte(v.t))
		}
		return nil
	}}, nil
}

// overInputs is an expression over inputs, one for each name in it, in order.
func overInputs(text string, in []spec.Type) (formula, error) {
	n, err := expr.Parse(text)
	if err != nil {
		return formula{}, err
	}
	names := n.Columns()
	return interpret(n, func(name string) (int, pb.Kind, error) {
		i := slices.Index(names, name)
		if len(in) != len(names) || in[i].List || in[i].Nested > 0 {
			return 0, 0, fmt.Errorf("%v for %v", in, names)
		}
		return i, in[i].Kind, nil
	})
}

// interpret makes a formula of a part of an expression.
func interpret(n *expr.Node, bind func(name string) (int, pb.Kind, error)) (formula, error) {
	switch n.Op {
	case expr.Literal:
		v := n.Values[0]
		return formula{kind: v.Kind, constant: true, of: func([]*cell, place) scalarValue { return literal(v) }}, nil
	case expr.Column:
		slot, kind, err := bind(n.Name)
		return formula{kind: kind, of: func(in []*cell, _ place) scalarValue { return ofCell(in[slot], kind) }}, err
	case expr.Row:
		return formula{of: func([]*cell, place) scalarValue { return none() }}, nil
	}
	var args []formula
	for _, arg := range n.Args {
		if arg.Op == expr.Null {
			args = append(args, formula{of: func([]*cell, place) scalarValue { return none() }})
			continue
		}
		f, err := interpret(arg, bind)
		if err != nil {
			return formula{}, err
		}
		args = append(args, f)
	}
	f, err := made(n, args)
	if err != nil {
		return formula{}, fmt.Errorf("%v: %w", n, err)
	}
	return f, nil
}

func literal(v expr.Value) scalarValue {
	if v.Kind == pb.Kind_BOOL {
		return scalarValue{n: boolInt(v.Bool)}
	}
	return scalarValue{n: v.Int, x: v.Float, t: v.Text}
}

func ofCell(c *cell, kind pb.Kind) scalarValue {
	switch {
	case c.null:
		return none()
	case holdingOf(kind) == storedInts:
		return scalarValue{n: c.ints[0]}
	case holdingOf(kind) == storedFloats:
		return scalarValue{x: c.floats[0]}
	}
	return scalarValue{t: string(c.texts[0])}
}

func made(n *expr.Node, args []formula) (formula, error) {
	switch n.Op {
	case expr.And, expr.Or, expr.Not, expr.Eq, expr.Ne, expr.Lt, expr.Le, expr.Gt, expr.Ge, expr.In, expr.NotIn,
		expr.IsNull, expr.IsNotNull, expr.Between:
		return madeTruth(n, args)
	case expr.Case:
		return madeCase(args)
	case expr.Cast:
		return formula{kind: n.To, of: func(in []*cell, at place) scalarValue {
			return converted(args[0].of(in, at), args[0].kind, n.To)
		}}, nil
	case expr.Hash:
		seed, row := n.Values[0].Int, n.Args[0].Op == expr.Row
		return formula{kind: pb.Kind_INT64, hash: true, of: func(in []*cell, at place) scalarValue {
			if row {
				return scalarValue{n: hashed(seed, idOf(nil, 0, at))}
			}
			v := args[0].of(in, at)
			c := &cell{null: v.null, ints: []int64{v.n}, floats: []float64{v.x}, texts: [][]byte{[]byte(v.t)}}
			return scalarValue{n: hashed(seed, idOf(c, args[0].kind, at))}
		}}, nil
	case expr.Coalesce, expr.Least, expr.Greatest:
		return madeChoice(n.Op, args)
	case expr.NullIf:
		equal, err := compared(expr.Eq, args[0], args[1])
		return formula{kind: wide(args[0].kind), of: func(in []*cell, at place) scalarValue {
			if equal(in, at) == yes {
				return none()
			}
			return args[0].of(in, at)
		}}, err
	case expr.Length, expr.OctetLength, expr.Lower, expr.Upper:
		return madeText(n.Op, args[0])
	}
	return madeNumber(n.Op, args)
}

// wide is the kind in which integers are computed.
func wide(k pb.Kind) pb.Kind {
	if k == pb.Kind_INT32 {
		return pb.Kind_INT64
	}
	return k
}

// together is the kind in which values of several are computed: that of those which are no constants, if these do not
// need a wider one.
func together(args []formula) (pb.Kind, error) {
	rank := map[pb.Kind]int{
		pb.Kind_INT32: 1, pb.Kind_INT64: 1, pb.Kind_FLOAT32: 2, pb.Kind_FLOAT64: 3, pb.Kind_BOOL: 10,
		pb.Kind_BINARY: 20,
	}
	most, least, constants := 0, math.MaxInt, 0
	for _, a := range args {
		if r := rank[a.kind]; a.constant {
			constants = max(constants, r)
		} else {
			most, least = max(most, r), min(least, r)
		}
	}
	isText := most >= 10 || constants >= 10
	switch {
	case isText && most != 0 && constants != 0 && most != constants, isText && most != 0 && most != least:
		return 0, fmt.Errorf("values of several kinds")
	case isText:
		return map[int]pb.Kind{10: pb.Kind_BOOL, 20: pb.Kind_BINARY}[max(most, constants)], nil
	case most == 2 && least == 2:
		return pb.Kind_FLOAT32, nil
	case most > 1 || constants > 1:
		return pb.Kind_FLOAT64, nil
	}
	return pb.Kind_INT64, nil
}

// as converts numbers to the kind in which they are computed.
func (f formula) as(kind pb.Kind) formula {
	if f.kind == kind || isInt(f.kind) && isInt(kind) || !isNumeric(f.kind) {
		return f
	}
	from, of := f.kind, f.of
	f.kind, f.of = kind, func(in []*cell, at place) scalarValue { return converted(of(in, at), from, kind) }
	return f
}

func all(args []formula, kind pb.Kind) []formula {
	var out []formula
	for _, a := range args {
		out = append(out, a.as(kind))
	}
	return out
}

// converted is what the op cast does, and text.
func converted(v scalarValue, from, to pb.Kind) scalarValue {
	if v.null {
		return v
	}
	c, in := &cell{}, &cell{ints: []int64{v.n}, floats: []float64{v.x}, texts: [][]byte{[]byte(v.t)}}
	switch {
	case to == pb.Kind_BINARY:
		return scalarValue{t: written(v, from)}
	case !c.cast(in, 0, from, to):
		return none()
	}
	return ofCell(c, to)
}

// madeCase takes the value of the first condition that is true.
func madeCase(args []formula) (formula, error) {
	var values []formula
	for i, a := range args {
		isValue := i%2 == 1 || i == len(args)-1
		if isValue && a.kind != pb.Kind_KIND_UNSPECIFIED {
			values = append(values, a)
		}
		if !isValue && a.kind != pb.Kind_BOOL {
			return formula{}, fmt.Errorf("a condition is %v", a.kind)
		}
	}
	kind, err := together(values)
	if err != nil || len(values) == 0 {
		return formula{}, fmt.Errorf("values of one kind: %w", err)
	}
	return formula{kind: kind, of: func(in []*cell, at place) scalarValue {
		for i := 0; i+1 < len(args); i += 2 {
			if args[i].of(in, at).truth() == yes {
				return args[i+1].as(kind).of(in, at)
			}
		}
		if len(args)%2 == 0 {
			return none()
		}
		return args[len(args)-1].as(kind).of(in, at)
	}}, nil
}

// madeChoice is coalesce, least and greatest, which leave nulls out.
func madeChoice(op expr.Op, args []formula) (formula, error) {
	kind, err := together(args)
	if err == nil && op != expr.Coalesce && !isNumeric(kind) {
		err = fmt.Errorf("it is of %v", kind)
	}
	args = all(args, kind)
	return formula{kind: kind, of: func(in []*cell, at place) scalarValue {
		best := none()
		for _, a := range args {
			v := a.of(in, at)
			switch {
			case v.null || op == expr.Coalesce && !best.null:
			case best.null:
				best = v
			case best.x != best.x || v.x != v.x:
				best.x = math.NaN()
			case op == expr.Least:
				best.n, best.x = min(best.n, v.n), math.Min(best.x, v.x)
			case op == expr.Greatest:
				best.n, best.x = max(best.n, v.n), math.Max(best.x, v.x)
			}
		}
		return best
	}}, err
}
