package filter

import (
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// Type is a column's type, convertible from and to spec.Type.
type Type struct {
	Kind pb.Kind
	List bool
}

func (t Type) String() string {
	k := strings.ToLower(t.Kind.String())
	if t.List {
		return "list<" + k + ">"
	}
	return k
}

// Check compares the predicate with the columns' types and returns all mistakes. lookup returns a column's type,
// or an error that says why there is none; each column's error is reported once.
func (e *Expr) Check(lookup func(column string) (Type, error)) []error {
	c := checker{lookup: lookup, types: map[string]Type{}}
	c.check(e)
	return c.errs
}

type checker struct {
	lookup func(column string) (Type, error)
	types  map[string]Type // kind unspecified: a mistake that has been reported
	errs   []error
}

func (c *checker) check(e *Expr) {
	for _, arg := range e.Args {
		c.check(arg)
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
			t = Type{}
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
			e.Column, Type{Kind: kind}, ColumnName(e.Column), e.Modulus)
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

func mismatch(column string, kind pb.Kind, v Value) error {
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
	return fmt.Errorf("%s is %v, but is compared with %v; want %s", column, Type{Kind: kind}, v, want)
}
