package filter

import (
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
)

// Columns of random expressions, by the kind of their values.
const (
	intColumn     = "i"
	floatColumn   = "f"
	float32Column = "e"
	boolColumn    = "b"
	textColumn    = "odd name"
)

var edgeInts = []int64{-1 << 63, -1<<53 - 1, -2, -1, 0, 1, 2, 1 << 53, 1<<53 + 1, 1<<63 - 1}

var edgeFloats = []float64{-1e300, -1 << 63, -1.5, -1, -0.5, 0, 0.1, 0.5, 1, 1.5, 2, 1 << 53, 1 << 63, 1e300}

func anyNumber(t *rapid.T) expr.Value {
	if rapid.Bool().Draw(t, "isInt") {
		return expr.Int(rapid.SampledFrom(edgeInts).Draw(t, "int"))
	}
	return expr.Float64(rapid.SampledFrom(edgeFloats).Draw(t, "float"))
}

func anyLiteral(t *rapid.T, column string) expr.Value {
	switch column {
	case boolColumn:
		return expr.Bool(rapid.Bool().Draw(t, "bool"))
	case textColumn:
		return expr.Text(rapid.SampledFrom([]string{"", "a", "b'", "\xff\x00", "é\\"}).Draw(t, "text"))
	}
	return anyNumber(t)
}

func anyExpr(t *rapid.T, depth int) *Expr {
	op := rapid.SampledFrom([]Op{And, Or, Not, Eq, Ne, Lt, Le, Gt, Ge, In, NotIn, IsNull, IsNotNull}).Draw(t, "op")
	if op <= Not && depth == 0 {
		op = Eq
	}
	e := &Expr{Op: op}
	switch op {
	case Not:
		e.Args = []*Expr{anyExpr(t, depth-1)}
		return e
	case And, Or:
		for n := rapid.IntRange(2, 3).Draw(t, "args"); n > 0; n-- {
			arg := anyExpr(t, depth-1)
			if arg.Op == op {
				arg = &Expr{Op: Not, Args: []*Expr{arg}}
			}
			e.Args = append(e.Args, arg)
		}
		return e
	}
	e.Operand = anyOperand(t)
	if e.Hashed && op >= IsNull {
		e.Op = Ne
	}
	n := 1
	switch e.Op {
	case In, NotIn:
		n = rapid.IntRange(1, 3).Draw(t, "values")
	case IsNull, IsNotNull:
		n = 0
	case Lt, Le, Gt, Ge:
		if e.Column == boolColumn && !e.Hashed {
			e.Op = Eq
		}
	}
	for range n {
		if e.Hashed {
			e.Values = append(e.Values, expr.Int(rapid.OneOf(rapid.Int64Range(0, 10), rapid.Int64()).Draw(t, "hash")))
		} else {
			e.Values = append(e.Values, anyLiteral(t, e.Column))
		}
	}
	return e
}

func anyOperand(t *rapid.T) Operand {
	o := Operand{Column: rapid.SampledFrom([]string{
		intColumn, floatColumn, float32Column, boolColumn,
		textColumn,
	}).Draw(t, "column")}
	if o.Hashed = rapid.IntRange(0, 2).Draw(t, "hashed") == 0; o.Hashed {
		o.Seed = rapid.Int64().Draw(t, "seed")
		if rapid.Bool().Draw(t, "of row") {
			o.Column = ""
		}
	}
	if (o.Hashed || o.Column == intColumn) && rapid.Bool().Draw(t, "remainder") {
		o.Modulus = rapid.OneOf(rapid.Int64Range(1, 10), rapid.Int64Range(1, 1<<63-1)).Draw(t, "modulus")
	}
	return o
}
