package expr

import (
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
)

// MaxSize is how many nodes an expression may have that is computed for many rows at once. Each takes memory.
const MaxSize = 1000

// Check types the expression by the types of its columns, and returns it as it is computed, or all mistakes.
//
// Kind is set in each node. Numbers of other kinds are behind Convert. Literals have the kind of what they meet, and
// are computed where they meet each other. Between is made of comparisons. Values of In are of the kind of what is
// looked for. Nodes may stand in several places of the result. Comparisons of an int64 with a float64 stay what they
// are: they are exact.
//
// lookup returns a column's type, or an error that says why there is none; it is asked once for each. A column of no
// kind is a mistake, too, of which no more is said.
func (n *Node) Check(lookup func(column string) (Type, error)) (*Node, []error) {
	c := checker{lookup: lookup, columns: map[string]pb.Kind{}}
	if size := n.Size(); size > MaxSize {
		return nil, []error{fmt.Errorf("the expression has %d parts; the limit is %d: make it of several", size,
			MaxSize)}
	}
	typed := c.check(n)
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	return typed, nil
}

// CheckTruth is Check of what must be true or false.
func (n *Node) CheckTruth(lookup func(column string) (Type, error)) (*Node, []error) {
	typed, errs := n.Check(lookup)
	if typed != nil && typed.Kind != pb.Kind_BOOL {
		return nil, []error{errors.New(untrue(n, typed.Kind))}
	}
	return typed, errs
}

type checker struct {
	lookup  func(column string) (Type, error)
	columns map[string]pb.Kind // unspecified: a mistake that has been reported
	errs    []error
}

func (c *checker) fail(at *Node, format string, args ...any) *Node {
	c.errs = append(c.errs, &SyntaxError{at.At, fmt.Sprintf(format, args...)})
	return nil
}

// check returns the typed node, nil after a mistake.
func (c *checker) check(n *Node) *Node {
	switch n.Op {
	case Literal:
		return &Node{Op: Literal, Values: n.Values, At: n.At, Kind: n.Values[0].Kind}
	case Column:
		return c.column(n)
	case Row, Null:
		return &Node{Op: n.Op, At: n.At, Kind: pb.Kind_INT64}
	case Case:
		return c.cases(n)
	}
	args := make([]*Node, len(n.Args))
	sound := true
	for i, arg := range n.Args {
		args[i] = c.check(arg)
		sound = sound && args[i] != nil
	}
	if !sound {
		return nil
	}
	switch {
	case n.Op <= Not:
		for i, arg := range args {
			sound = c.truth(n.Args[i], arg) && sound
		}
		return c.made(n, pb.Kind_BOOL, sound, args...)
	case n.Op <= Between:
		return c.test(n, args)
	case n.Op <= Mod:
		return c.arithmetic(n, args)
	}
	return c.function(n, args)
}

// made is a node of a kind, unless there was a mistake.
func (c *checker) made(n *Node, kind pb.Kind, sound bool, args ...*Node) *Node {
	if !sound {
		return nil
	}
	return &Node{Op: n.Op, Args: args, Values: n.Values, To: n.To, At: n.At, Kind: kind}
}

func (c *checker) column(n *Node) *Node {
	kind, seen := c.columns[n.Name]
	if !seen {
		t, err := c.lookup(n.Name)
		if err == nil && t.List {
			err = fmt.Errorf("%s is %v; expressions take scalars", n.Name, t)
		}
		if kind = t.Kind; err != nil {
			c.errs, kind = append(c.errs, err), pb.Kind_KIND_UNSPECIFIED
		}
		c.columns[n.Name] = kind
	}
	if kind == pb.Kind_KIND_UNSPECIFIED {
		return nil
	}
	return &Node{Op: Column, Name: n.Name, At: n.At, Kind: kind}
}

// truth checks that an argument is true or false.
func (c *checker) truth(written, arg *Node) bool {
	if arg.Kind == pb.Kind_BOOL {
		return true
	}
	c.fail(written, "%s", untrue(written, arg.Kind))
	return false
}

// untrue is what is wrong with a condition that is neither true nor false.
func untrue(n *Node, kind pb.Kind) string {
	with := "> 0"
	if kind == pb.Kind_BINARY {
		with = "== 'text'"
	}
	return fmt.Sprintf("%v is %s, and a condition is true or false: compare it, as in %v %s",
		n, KindName(kind), n, with)
}

func (c *checker) cases(n *Node) *Node {
	sound := true
	args, values := make([]*Node, len(n.Args)), make([]*Node, 0, len(n.Args))
	for i, arg := range n.Args {
		if args[i] = c.check(arg); args[i] == nil {
			sound = false
			continue
		}
		if i%2 == 0 && i+1 < len(n.Args) {
			sound = c.truth(arg, args[i]) && sound
		} else if arg.Op != Null {
			values = append(values, args[i])
		}
	}
	if !sound {
		return nil
	}
	kind, ok := c.common(n, values)
	for i, arg := range args {
		switch {
		case !ok || i%2 == 0 && i+1 < len(args):
		case arg.Op == Null:
			arg.Kind = kind
		default:
			args[i] = c.convert(arg, kind)
			ok = args[i] != nil
		}
	}
	return c.made(n, kind, ok, args...)
}

func isInt(k pb.Kind) bool { return k == pb.Kind_INT32 || k == pb.Kind_INT64 }

func isNumber(k pb.Kind) bool { return isInt(k) || IsFloat(k) }

// common is the kind in which values of several are computed. Literals have that of the others.
func (c *checker) common(n *Node, values []*Node) (pb.Kind, bool) {
	var ints, floats, wide, fractions bool
	for _, v := range values {
		literal := v.Op == Literal
		switch k := v.Kind; {
		case k != values[0].Kind && (!isNumber(k) || !isNumber(values[0].Kind)):
			c.fail(n, "%v is of %s and of %s; cast makes one of the other", n.Op, KindName(values[0].Kind), KindName(k))
			return 0, false
		case isInt(k):
			ints = ints || !literal
		case k == pb.Kind_FLOAT32:
			floats = true
		case k == pb.Kind_FLOAT64:
			wide, fractions = wide || !literal, fractions || literal
		}
	}
	switch {
	case len(values) == 0:
		c.fail(n, "all values are null; one of them says the type, as in cast(0 as float32)")
		return 0, false
	case !isNumber(values[0].Kind):
		return values[0].Kind, true
	case wide, ints && (floats || fractions), fractions && !floats:
		return pb.Kind_FLOAT64, true
	case floats:
		return pb.Kind_FLOAT32, true
	}
	return pb.Kind_INT64, true
}

// convert makes a number one of another kind, of which its values are.
func (c *checker) convert(n *Node, kind pb.Kind) *Node {
	switch {
	case n.Kind == kind:
		return n
	case n.Op == Literal:
		v, ok := n.Values[0].as(kind)
		if !ok {
			return c.fail(n, "%v is beyond float32; cast the other side: cast(... as float64)", n)
		}
		return &Node{Op: Literal, Values: []Value{v}, At: n.At, Kind: kind}
	}
	return &Node{Op: Convert, Args: []*Node{n}, At: n.At, Kind: kind}
}

// as is a number rounded to another kind; it is not ok if it is finite and what it becomes is not.
func (v Value) as(kind pb.Kind) (_ Value, ok bool) {
	switch whole := v.Kind == pb.Kind_INT64; {
	case kind == pb.Kind_FLOAT32 && whole:
		return Float32(float32(v.Int)), true
	case kind == pb.Kind_FLOAT32:
		narrow := Float32(float32(v.Float))
		return narrow, narrow.finite() || !v.finite()
	case kind == pb.Kind_FLOAT64 && whole:
		return Float64(float64(v.Int)), true
	case kind == pb.Kind_FLOAT64:
		return Float64(v.Float), true
	}
	return v, true
}

func (v Value) finite() bool { return v.Float-v.Float == 0 }

func (c *checker) arithmetic(n *Node, args []*Node) *Node {
	for i, arg := range args {
		switch {
		case n.Op == Mod && !isInt(arg.Kind):
			return c.fail(n, "%v is %s, and %% takes integers; a hash is one: hash(%v, 1) %% 2", n.Args[i],
				KindName(arg.Kind), n.Args[i])
		case !isNumber(arg.Kind):
			return c.fail(n, "%v is %s, and %v takes numbers; cast makes one of it: cast(%v as int64)", n.Args[i],
				KindName(arg.Kind), n.Op, n.Args[i])
		}
	}
	if divisor := args[len(args)-1]; n.Op == Mod && divisor.Op == Literal && divisor.Values[0].Int == 0 {
		return c.fail(n, "a division by 0 leaves no remainder; want another number behind %%")
	}
	kind, ok := c.common(n, args)
	if n.Op == Div && isInt(kind) {
		kind = pb.Kind_FLOAT64
	}
	for i := range args {
		if args[i] = c.convert(args[i], kind); args[i] == nil {
			return nil
		}
	}
	folded := c.made(n, kind, ok, args...)
	if args[0].Op == Literal && args[len(args)-1].Op == Literal {
		return c.fold(folded)
	}
	return folded
}

// fold computes arithmetic of literals.
func (c *checker) fold(n *Node) *Node {
	a, b := n.Args[0].Values[0], n.Args[len(n.Args)-1].Values[0]
	var v Value
	ok := true
	if n.Kind == pb.Kind_INT64 {
		v.Kind = pb.Kind_INT64
		v.Int, ok = IntResult(n.Op, a.Int, b.Int)
	} else {
		v = Float64(floatResult(n.Op, a.Float, b.Float))
	}
	if !ok {
		return c.fail(n, "%v has no value in 64 bits", n)
	}
	return &Node{Op: Literal, Values: []Value{v}, At: n.At, Kind: n.Kind}
}

// IntResult is what arithmetic makes of integers, unless there is no such int64.
func IntResult(op Op, a, b int64) (x int64, ok bool) {
	switch op {
	case Neg:
		return -a, -a != a || a == 0
	case Abs:
		return max(a, -a), -a != a || a == 0
	case Add:
		x = a + b
		return x, (a^x)&(b^x) >= 0
	case Sub:
		x = a - b
		return x, (a^b)&(a^x) >= 0
	case Mul:
		x = a * b
		return x, a == 0 || x/a == b && (a != -1 || -b != b || b == 0)
	}
	if b == 0 {
		return 0, false
	}
	if x = a % b; x != 0 && x^b < 0 {
		x += b
	}
	return x, true
}

func floatResult(op Op, a, b float64) float64 {
	switch op {
	case Neg:
		return -a
	case Add:
		return a + b
	case Sub:
		return a - b
	case Mul:
		return a * b
	}
	return a / b
}

func (c *checker) function(n *Node, args []*Node) *Node {
	kind := pb.Kind_INT64
	switch n.Op {
	case Cast:
		return c.made(n, n.To, true, args...)
	case Hash, Length, OctetLength:
	case Lower, Upper:
		kind = pb.Kind_BINARY
	case NullIf:
		return c.nullIf(n, args)
	default:
		return c.numeric(n, args)
	}
	if n.Op != Hash && args[0].Kind != pb.Kind_BINARY {
		return c.fail(n, "%v is %s, and %v takes text; cast makes it of other values", n.Args[0],
			KindName(args[0].Kind), n.Op)
	}
	return c.made(n, kind, true, args...)
}

// nullIf compares its arguments as Eq does; its result is the first one. Ints are int64.
func (c *checker) nullIf(n *Node, args []*Node) *Node {
	equal := c.test(&Node{Op: Eq, Args: n.Args, At: n.At}, args)
	if equal == nil {
		return nil
	}
	value := args[0]
	if isInt(value.Kind) {
		value = c.convert(value, pb.Kind_INT64)
	}
	return c.made(n, value.Kind, true, value, equal)
}

// numeric is for functions that have arguments of one kind, and a result of that.
func (c *checker) numeric(n *Node, args []*Node) *Node {
	for i, arg := range args {
		if n.Op != Coalesce && !isNumber(arg.Kind) {
			return c.fail(n, "%v is %s, and %v takes numbers", n.Args[i], KindName(arg.Kind), n.Op)
		}
	}
	kind, ok := c.common(n, args)
	if n.Op >= Sqrt && n.Op <= Pow && isInt(kind) {
		kind = pb.Kind_FLOAT64
	}
	for i := range args {
		if !ok {
			return nil
		}
		args[i] = c.convert(args[i], kind)
		ok = args[i] != nil
	}
	if n.Op >= Floor && n.Op <= Round && isInt(kind) { // they are what they are, but no literals any more
		return &Node{Op: Convert, Args: args, At: n.At, Kind: kind}
	}
	return c.made(n, kind, ok, args...)
}
