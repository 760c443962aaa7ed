package filter

import (
	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/worker/vector"
)

// bools tests bool columns against a set.
type bools struct {
	test
	hasFalse, hasTrue bool
}

func newBools(t test, literals []expr.Value) matcher {
	n := &bools{test: t}
	for _, lit := range literals {
		n.hasTrue = n.hasTrue || lit.Bool
		n.hasFalse = n.hasFalse || !lit.Bool
	}
	return n
}

func (n *bools) match(dst []uint64, v *vector.Vector) {
	for w := range dst {
		var bits uint64
		for i, x := range v.Bool[w<<6 : min(w<<6+64, v.Rows)] {
			bits |= bit(x && n.hasTrue || !x && n.hasFalse) << i
		}
		dst[w] = bits
	}
	n.finish(dst)
}

// texts tests binary columns, byte by byte.
type texts struct {
	test
	literal string // of an order, or of a set of one
	set     map[string]struct{}
}

func newTexts(t test, literals []expr.Value) matcher {
	n := &texts{test: t, literal: literals[0].Text}
	if len(literals) == 1 && n.op == filter.In {
		n.op = filter.Eq
	}
	if n.op == filter.In {
		n.set = make(map[string]struct{}, len(literals))
		for _, lit := range literals {
			n.set[lit.Text] = struct{}{}
		}
	}
	return n
}

func (n *texts) match(dst []uint64, v *vector.Vector) {
	for w := range dst {
		var bits uint64
		for row := w << 6; row < min(w<<6+64, v.Rows); row++ {
			bits |= bit(n.matches(v.Data[v.Ends[row]:v.Ends[row+1]])) << (row & 63)
		}
		dst[w] = bits
	}
	n.finish(dst)
}

// matches allocates nothing: the compiler sees that the conversions do not outlive their use.
func (n *texts) matches(x []byte) bool {
	switch n.op {
	case filter.Eq:
		return string(x) == n.literal
	case filter.Lt:
		return string(x) < n.literal
	case filter.Le:
		return string(x) <= n.literal
	case filter.Gt:
		return string(x) > n.literal
	case filter.Ge:
		return string(x) >= n.literal
	}
	_, ok := n.set[string(x)]
	return ok
}
