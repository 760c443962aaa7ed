package filter

import (
	"math"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// test is what tests of one column have in common: Eq, In or an order, or that it is false.
type test struct {
	op     filter.Op
	negate bool
}

// finish turns bits of matching values into bits of those that pass: matches negated if so wanted.
func (t *test) finish(dst []uint64) {
	if t.negate {
		for i := range dst {
			dst[i] = ^dst[i]
		}
	}
}

// bound makes `x op whole` say of any x of a type what `x op lit` says, where lit lies strictly between its two
// neighbours of that type. Where op is Eq or In no x does, and ok is false.
func bound[T any](op filter.Op, below, above T) (_ filter.Op, whole T, ok bool) {
	switch op {
	case filter.Lt, filter.Le:
		return filter.Le, below, true
	case filter.Gt, filter.Ge:
		return filter.Ge, above, true
	}
	return op, whole, false
}

// ints tests int32 and int64 columns.
type ints struct {
	test
	values []int64 // one to compare with; of In the set if it is small
	set    map[int64]struct{}
}

// smallSet is up to how many values a set is searched one by one.
const smallSet = 8

func newInts(t test, literals []expr.Value) matcher {
	n := &ints{test: t}
	for _, lit := range literals {
		if lit.Kind == pb.Kind_INT64 {
			n.values = append(n.values, lit.Int)
			continue
		}
		if op, whole, ok := intBound(t.op, lit.Float); ok {
			n.op, n.values = op, append(n.values, whole)
		}
	}
	if n.op == filter.Eq || len(n.values) == 0 {
		n.op = filter.In
	}
	if len(n.values) > smallSet {
		n.set = setOf(n.values)
	}
	return n
}

// intBound is the comparison of integers that has the outcome of comparing with f. If there is no value to compare
// with, none matches.
func intBound(op filter.Op, f float64) (filter.Op, int64, bool) {
	switch {
	case f >= 1<<63:
		return filter.Le, math.MaxInt64, op == filter.Lt || op == filter.Le
	case f < -1<<63:
		return filter.Ge, math.MinInt64, op == filter.Gt || op == filter.Ge
	case f == math.Floor(f):
		return op, int64(f), true
	}
	// What is no integer is well below 1<<53, so that both neighbours are exact.
	return bound(op, int64(math.Floor(f)), int64(math.Ceil(f)))
}

func setOf[T comparable](values []T) map[T]struct{} {
	set := make(map[T]struct{}, len(values))
	for _, v := range values {
		set[v] = struct{}{}
	}
	return set
}

func (n *ints) match(dst []uint64, v *vector.Vector) {
	if v.Type.Kind == pb.Kind_INT32 {
		match(dst, v.I32[:v.Rows], n.op, n.values, n.set)
	} else {
		match(dst, v.I64[:v.Rows], n.op, n.values, n.set)
	}
	n.finish(dst)
}

// floats tests float32 and float64 columns.
type floats struct {
	test
	values []float64
	set    map[float64]struct{}
}

func newFloats(t test, kind pb.Kind, literals []expr.Value) matcher {
	n := &floats{test: t}
	for _, lit := range literals {
		if lit.Kind == pb.Kind_FLOAT64 {
			n.values = append(n.values, lit.For(kind).Float)
			continue
		}
		if op, f, ok := floatBound(t.op, lit.Int); ok {
			n.op, n.values = op, append(n.values, f)
		}
	}
	if n.op == filter.Eq {
		n.op = filter.In
	}
	if len(n.values) > smallSet {
		n.set = setOf(n.values)
	}
	return n
}

// floatBound is the comparison of floats that has the outcome of comparing with i, which may have no float64.
func floatBound(op filter.Op, i int64) (filter.Op, float64, bool) {
	f := float64(i)
	switch {
	case f < 1<<63 && int64(f) == i:
		return op, f, true
	case f >= 1<<63 || int64(f) > i:
		return bound(op, math.Nextafter(f, math.Inf(-1)), f)
	}
	return bound(op, f, math.Nextafter(f, math.Inf(1)))
}

func (n *floats) match(dst []uint64, v *vector.Vector) {
	if v.Type.Kind == pb.Kind_FLOAT32 {
		match(dst, v.F32[:v.Rows], n.op, n.values, n.set)
	} else {
		match(dst, v.F64[:v.Rows], n.op, n.values, n.set)
	}
	n.finish(dst)
}

// match sets the bit of each x that compares with the values as op says. An In has any number of values, and an
// empty one matches nothing; other ops have one.
func match[X int32 | int64 | float32 | float64, V int64 | float64](
	dst []uint64, xs []X, op filter.Op, values []V, set map[V]struct{},
) {
	if op == filter.In {
		matchAny(dst, xs, values, set)
		return
	}
	c := values[0]
	for w := range dst {
		var bits uint64
		chunk := xs[w<<6 : min(w<<6+64, len(xs))]
		switch op {
		case filter.Lt:
			for i, x := range chunk {
				bits |= bit(V(x) < c) << i
			}
		case filter.Le:
			for i, x := range chunk {
				bits |= bit(V(x) <= c) << i
			}
		case filter.Gt:
			for i, x := range chunk {
				bits |= bit(V(x) > c) << i
			}
		case filter.Ge:
			for i, x := range chunk {
				bits |= bit(V(x) >= c) << i
			}
		}
		dst[w] = bits
	}
}

func matchAny[X int32 | int64 | float32 | float64, V int64 | float64](
	dst []uint64, xs []X, values []V, set map[V]struct{},
) {
	for w := range dst {
		var bits uint64
		chunk := xs[w<<6 : min(w<<6+64, len(xs))]
		if set != nil {
			for i, x := range chunk {
				_, in := set[V(x)]
				bits |= bit(in) << i
			}
		} else {
			for _, c := range values {
				for i, x := range chunk {
					bits |= bit(V(x) == c) << i
				}
			}
		}
		dst[w] = bits
	}
}

// bit is 1 for true; the compiler makes it branchless.
func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
