package filter

import (
	"fmt"
	"strconv"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// Truth is a value of SQL's three-valued logic.
type Truth int8

// Truths, in the order in which `and` takes the least and `or` the greatest of its operands.
const (
	False Truth = iota - 1
	Unknown
	True
)

func truth(b bool) Truth {
	if b {
		return True
	}
	return False
}

// Eval evaluates the predicate on one row; it has no conditions (Holds). lookup returns the row's value of a column,
// and false if it is null; of column "" it returns the row's id (RowID), as an Int.
// Text (the value of a partition key) that is compared with a number or a bool is read as one; text that cannot
// be so read is an error, as is any other mismatch that Check would have found.
func (e *Expr) Eval(lookup func(column string) (expr.Value, bool)) (Truth, error) {
	switch e.Op {
	case Not:
		t, err := e.Args[0].Eval(lookup)
		return -t, err
	case And, Or:
		// Negated, `or` is an `and`.
		sign := Truth(1)
		if e.Op == Or {
			sign = -1
		}
		lowest := True
		for _, arg := range e.Args {
			t, err := arg.Eval(lookup)
			if err != nil {
				return Unknown, err
			}
			lowest = min(lowest, sign*t)
		}
		return sign * lowest, nil
	}
	if e.Op == Holds {
		return Unknown, fmt.Errorf("filter: %v is computed for many rows at once alone", e.Cond)
	}
	v, ok := lookup(e.Column)
	v, ok, err := e.of(v, ok)
	switch {
	case err != nil:
		return Unknown, fmt.Errorf("filter on %s: %w", e.Operand, err)
	case e.Op == IsNull:
		return truth(!ok), nil
	case e.Op == IsNotNull:
		return truth(ok), nil
	case !ok:
		return Unknown, nil
	}
	found := false
	for _, lit := range e.Values {
		t, err := e.test(v, lit)
		if err != nil {
			return Unknown, fmt.Errorf("filter on %s: %w", e.Operand, err)
		}
		found = found || t
	}
	return truth(found != (e.Op == NotIn)), nil
}

func (e *Expr) test(v, lit expr.Value) (bool, error) {
	v, err := readText(v, lit.Kind)
	if err != nil {
		return false, err
	}
	sign, ordered, err := expr.Order(v, lit)
	if err != nil || !ordered {
		return e.Op == Ne, err
	}
	switch e.Op {
	case Ne:
		return sign != 0, nil
	case Lt:
		return sign < 0, nil
	case Le:
		return sign <= 0, nil
	case Gt:
		return sign > 0, nil
	case Ge:
		return sign >= 0, nil
	}
	return sign == 0, nil
}

// readText reads text as a number or bool where the literal is one.
func readText(v expr.Value, literal pb.Kind) (expr.Value, error) {
	if v.Kind != pb.Kind_BINARY || literal == pb.Kind_BINARY {
		return v, nil
	}
	if literal == pb.Kind_BOOL {
		b, err := strconv.ParseBool(v.Text)
		if err != nil {
			return v, fmt.Errorf("%s is neither true nor false", v)
		}
		return expr.Bool(b), nil
	}
	if i, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
		return expr.Int(i), nil
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		return v, fmt.Errorf("%s is not a number; compare it with text in quotes", v)
	}
	return expr.Float64(f), nil
}
