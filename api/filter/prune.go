package filter

import (
	"github.com/penstock-ml/penstock/api/expr"
)

// Stats is what is known of a column in some rows. Each value that is neither null nor NaN lies between Min and
// Max, both included.
type Stats struct {
	Min, Max  expr.Value
	HasMinMax bool
	Nulls     int64 // -1: unknown
	Rows      int64
}

// outcomes is the set of truths that a predicate may have in some row. It may be too large, never too small.
type outcomes uint8

const (
	mayBeTrue outcomes = 1 << iota
	mayBeFalse
	mayBeUnknown
	anyOutcome = mayBeTrue | mayBeFalse | mayBeUnknown
)

// MayMatch reports whether some row may satisfy the predicate, as far as statistics tell; if not, the rows need
// not be read. stats returns what is known of a column, and false for nothing. A column that a file lacks is all
// null (Nulls equals Rows), or has its default as both Min and Max and no nulls.
func (e *Expr) MayMatch(stats func(column string) (Stats, bool)) bool {
	return e.outcomes(stats)&mayBeTrue != 0
}

func (e *Expr) outcomes(stats func(column string) (Stats, bool)) outcomes {
	switch e.Op {
	case Not:
		return e.Args[0].outcomes(stats).negated()
	case And, Or:
		// Negated, `or` is an `and`.
		joined := mayBeTrue
		for _, arg := range e.Args {
			o := arg.outcomes(stats)
			if e.Op == Or {
				o = o.negated()
			}
			joined = joined&o&mayBeTrue | (joined|o)&^mayBeTrue
		}
		if e.Op == Or {
			return joined.negated()
		}
		return joined
	}
	if e.Op == Holds || e.Computed() {
		return anyOutcome // bounds of a column say nothing about hashes, remainders and what else is computed
	}
	s, ok := stats(e.Column)
	if !ok {
		return anyOutcome
	}
	return e.testOutcomes(s)
}

func (o outcomes) negated() outcomes {
	n := o & mayBeUnknown
	if o&mayBeTrue != 0 {
		n |= mayBeFalse
	}
	if o&mayBeFalse != 0 {
		n |= mayBeTrue
	}
	return n
}

// testOutcomes is the outcomes of a test of one column.
func (e *Expr) testOutcomes(s Stats) outcomes {
	if s.Rows == 0 {
		return 0
	}
	nulls := s.Nulls != 0
	values := s.Nulls != s.Rows
	switch {
	case e.Op == IsNull:
		return possible(nulls, values, false)
	case e.Op == IsNotNull:
		return possible(values, nulls, false)
	case !values:
		return mayBeUnknown
	case !s.HasMinMax || !ascending(s.Min, s.Max):
		return possible(true, true, nulls)
	}
	hit, miss := false, true
	for _, lit := range e.Values {
		h, m, ok := e.compare(s, lit)
		if !ok {
			return possible(true, true, nulls)
		}
		hit, miss = hit || h, miss && m
	}
	if expr.IsFloat(s.Min.Kind) {
		// NaN lies outside of the bounds; nothing compares with it.
		miss = true
	}
	if e.Op == Ne || e.Op == NotIn {
		hit, miss = miss, hit
	}
	return possible(hit, miss, nulls)
}

func possible(isTrue, isFalse, isUnknown bool) outcomes {
	var o outcomes
	if isTrue {
		o |= mayBeTrue
	}
	if isFalse {
		o |= mayBeFalse
	}
	if isUnknown {
		o |= mayBeUnknown
	}
	return o
}

// ascending reports whether statistics are sound: bounds of one kind, in order.
func ascending(low, high expr.Value) bool {
	if low.Kind != high.Kind {
		return false
	}
	if expr.IsFloat(low.Kind) {
		return low.Float <= high.Float
	}
	sign, _, err := expr.Order(low, high)
	return err == nil && sign <= 0
}

// compare reports whether a value within the bounds may be (hit), and may not be (miss), as the literal wants;
// Ne and NotIn are taken as Eq and In.
func (e *Expr) compare(s Stats, lit expr.Value) (hit, miss, ok bool) {
	low, _, err := expr.Order(s.Min, lit)
	if err != nil {
		return false, false, false
	}
	high, _, err := expr.Order(s.Max, lit)
	if err != nil {
		return false, false, false
	}
	switch e.Op {
	case Lt:
		return low < 0, high >= 0, true
	case Le:
		return low <= 0, high > 0, true
	case Gt:
		return high > 0, low <= 0, true
	case Ge:
		return high >= 0, low < 0, true
	}
	return low <= 0 && high >= 0, low != 0 || high != 0, true
}
