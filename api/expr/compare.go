package expr

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
)

// test types comparisons and what else is true or false of values.
func (c *checker) test(n *Node, args []*Node) *Node {
	switch n.Op {
	case IsNull, IsNotNull:
		if args[0].Op == Hash {
			return c.fail(n, "a hash is never null, not even that of null; test the column itself")
		}
		return c.made(n, pb.Kind_BOOL, true, args...)
	case In, NotIn:
		return c.among(n, args[0])
	case Between:
		low := c.compare(n, Ge, args[0], args[1])
		high := c.compare(n, Le, args[0], args[2])
		return c.made(&Node{Op: And, At: n.At}, pb.Kind_BOOL, low != nil && high != nil, low, high)
	}
	return c.compare(n, n.Op, args[0], args[1])
}

func (c *checker) compare(n *Node, op Op, a, b *Node) *Node {
	if message := mismatch(op, a, b); message != "" {
		return c.fail(n, "%s", message)
	}
	a, b = meet(a, b), meet(b, a)
	if a.Kind != b.Kind {
		a, b = widen(a), widen(b)
	}
	return &Node{Op: op, Args: []*Node{a, b}, At: n.At, Kind: pb.Kind_BOOL}
}

// widen makes float32 values float64.
func widen(n *Node) *Node {
	if n.Kind != pb.Kind_FLOAT32 {
		return n
	}
	return &Node{Op: Convert, Args: []*Node{n}, At: n.At, Kind: pb.Kind_FLOAT64}
}

// mismatch is what is wrong with a comparison.
func mismatch(op Op, a, b *Node) string {
	for _, side := range [][2]*Node{{a, b}, {b, a}} {
		hash, literal := side[0], side[1]
		if hash.Op == Mod && hash.Args[0].Op == Hash {
			hash = hash.Args[0]
		}
		if hash.Op == Hash && literal.Op == Literal && literal.Kind != pb.Kind_INT64 {
			return fmt.Sprintf("found %v; want an integer, which a hash is; nine tenths of all keys have "+
				"hash(..., 7) %% 100 < 90", literal)
		}
	}
	switch {
	case isNumber(a.Kind) && isNumber(b.Kind), a.Kind == b.Kind && a.Kind != pb.Kind_BOOL:
		return ""
	case a.Kind != b.Kind:
		return fmt.Sprintf("%s is compared with %s; cast makes one of the other", KindName(a.Kind), KindName(b.Kind))
	case op != Eq && op != Ne:
		return fmt.Sprintf("bool takes == and !=, not %v", op)
	}
	return ""
}

// meet is a literal of the kind that it is compared with, where that does not change the outcome, but for the rounding
// of fractions to float32. All else stays.
func meet(n, other *Node) *Node {
	if n.Op != Literal {
		return n
	}
	v, ok := n.Values[0].meeting(other.Kind)
	if !ok {
		return n
	}
	return &Node{Op: Literal, Values: []Value{v}, At: n.At, Kind: v.Kind}
}

// meeting is a number of the kind, if it compares with such values as v does.
func (v Value) meeting(kind pb.Kind) (_ Value, ok bool) {
	switch {
	case isInt(kind) && v.Kind == pb.Kind_FLOAT64:
		whole := v.Float >= -1<<63 && v.Float < 1<<63 && v.Float == float64(int64(v.Float))
		return Int(int64(v.Float)), whole
	case kind == pb.Kind_FLOAT32 && v.Kind == pb.Kind_FLOAT64:
		return v.as(kind)
	case IsFloat(kind) && v.Kind == pb.Kind_INT64:
		near, _ := v.as(kind)
		sign, _ := OrderIntFloat(v.Int, near.Float)
		return near, sign == 0
	}
	return v, v.Kind == kind || isInt(v.Kind) && isInt(kind)
}

// among types `in`: literals that no value of the kind can equal are left out.
func (c *checker) among(n, arg *Node) *Node {
	var values []Value
	for _, v := range n.Values {
		literal := &Node{Op: Literal, Values: []Value{v}, Kind: v.Kind}
		if message := mismatch(Eq, arg, literal); message != "" {
			return c.fail(n, "%s", message)
		}
		if v, ok := v.meeting(arg.Kind); ok {
			values = append(values, v)
		}
	}
	return c.made(&Node{Op: n.Op, Values: values, At: n.At}, pb.Kind_BOOL, true, arg)
}
