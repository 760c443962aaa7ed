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
	if e.Column == "" {
		return
	}
	t, seen := c.types[e.Column]
	if !seen {
		var err error
		t, err = c.lookup(e.Column)
		if err == nil && t.List {
			err = fmt.Errorf("%s is %v; filters need scalar columns", e.Column, t)
		}
		if err != nil {
			c.errs = append(c.errs, err)
			t = Type{}
		}
		c.types[e.Column] = t
	}
	if t.Kind == pb.Kind_KIND_UNSPECIFIED {
		return
	}
	if t.Kind == pb.Kind_BOOL && e.Op >= Lt && e.Op <= Ge {
		c.errs = append(c.errs, fmt.Errorf("%s is bool; it takes == and !=, not %v", e.Column, e.Op))
		return
	}
	for _, v := range e.Values {
		if err := mismatch(e.Column, t.Kind, v); err != nil {
			c.errs = append(c.errs, err)
			return
		}
	}
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
