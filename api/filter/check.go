package filter

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// Check compares the predicate with the columns' types and returns all mistakes. lookup returns a column's type,
// or an error that says why there is none; each column's error is reported once.
func (e *Expr) Check(lookup func(column string) (expr.Type, error)) []error {
	c := checker{lookup: lookup, types: map[string]expr.Type{}}
	c.check(e)
	return c.errs
}

type checker struct {
	lookup func(column string) (expr.Type, error)
	types  map[string]expr.Type // kind unspecified: a mistake that has been reported
	errs   []error
	size   int // nodes of conditions
}

func (c *checker) check(e *Expr) {
	for _, arg := range e.Args {
		c.check(arg)
	}
	if e.Op == Holds {
		c.holds(e.Cond)
		return
	}
	if e.Column == "" { // a junction, or the row's place, of which all is known
		return
	}
	kind := c.kind(e.Column)
	if kind == pb.Kind_KIND_UNSPECIFIED {
		return
	}
	if err := e.mistake(kind); err != nil {
		c.errs = append(c.errs, err)
	}
}

// holds checks a condition; columns of which a mistake has been reported have none here.
func (c *checker) holds(cond *expr.Node) {
	size := cond.Size()
	if c.size += size; c.size > expr.MaxSize && c.size-size <= expr.MaxSize {
		c.errs = append(c.errs, fmt.Errorf("the filter computes %d parts of conditions or more; the limit is %d",
			c.size, expr.MaxSize))
	}
	if c.size > expr.MaxSize {
		return
	}
	_, errs := cond.CheckTruth(func(column string) (expr.Type, error) {
		return expr.Type{Kind: c.kind(column)}, nil
	})
	c.errs = append(c.errs, errs...)
}

// kind is that of a column, unspecified if there is none that filters take.
func (c *checker) kind(column string) pb.Kind {
	t, seen := c.types[column]
	if !seen {
		var err error
		t, err = c.lookup(column)
		if err == nil && t.List {
			err = fmt.Errorf("%s is %v; filters need scalar columns", column, t)
		}
		if err != nil {
			c.errs = append(c.errs, err)
			t = expr.Type{}
		}
		c.types[column] = t
	}
	return t.Kind
}

// mistake is what is wrong with a test of a column of that kind.
func (e *Expr) mistake(kind pb.Kind) error {
	if e.Hashed {
		kind = pb.Kind_INT64
	}
	switch whole := kind == pb.Kind_INT32 || kind == pb.Kind_INT64; {
	case e.Modulus != 0 && !whole:
		return fmt.Errorf("%s is %v, and %% takes integers; a hash is one: hash(%s, 1) %% %d",
			e.Column, expr.Type{Kind: kind}, expr.ColumnName(e.Column), e.Modulus)
	case kind == pb.Kind_BOOL && e.Op >= Lt && e.Op <= Ge:
		return fmt.Errorf("%s is bool; it takes == and !=, not %v", e.Column, e.Op)
	}
	for _, v := range e.Values {
		if err := mismatch(e.Operand.String(), kind, v); err != nil {
			return err
		}
	}
	return nil
}

func mismatch(column string, kind pb.Kind, v expr.Value) error {
	number := v.Kind == pb.Kind_INT64 || v.Kind == pb.Kind_FLOAT64
	want := ""
	switch kind {
	case pb.Kind_BOOL:
		if v.Kind != pb.Kind_BOOL {
			want = "true or false"
		}
	case pb.Kind_BINARY:
		if v.Kind != pb.Kind_BINARY {
			want = "text in quotes"
		}
	default:
		if !number {
			want = "a number"
		}
	}
	if want == "" {
		return nil
	}
	return fmt.Errorf("%s is %v, but is compared with %v; want %s", column, expr.Type{Kind: kind}, v, want)
}
