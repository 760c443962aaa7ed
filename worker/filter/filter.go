// Package filter evaluates a predicate of api/filter on the vectors of a window, before the window is transformed:
// worker/formats decodes the vectors, worker/pipeline drops the rows that are left out. A Program has scratch memory
// of its own and serves one goroutine at a time; once its scratch has grown to the window's size it allocates nothing.
// Where a column comes as codes of a dictionary, a test looks at each entry once, and at the codes of the rows.
package filter

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Program is a predicate compiled for columns at known places.
type Program struct {
	root    node
	columns []column
	window  Window // that Select looks at
	bytes   int64
}

// Window is the rows that a predicate judges.
type Window struct {
	Vectors []*vector.Vector // by slot
	Rows    int
	File    uint64 // id of the file's URI: filter.TextID
	First   int64  // row of the file at which the window starts
}

// column is a slot that the predicate reads and the type it was compiled for.
type column struct {
	slot int
	name string
	typ  spec.Type
}

// node writes, for each row, whether a part of the predicate has the truth that the compiler asked for. Since the
// truth asked for is pushed down to the tests, where nulls satisfy neither true nor false, one bit a row carries
// SQL's three-valued logic.
type node interface {
	// eval sets the bits of dst for the window's rows; it may leave anything behind them.
	eval(dst []uint64, w *Window)
}

// Compile prepares e for columns whose vectors will stand at slots[name] and have types[slots[name]]. Its errors
// are those of e.Check.
func Compile(e *filter.Expr, slots map[string]int, types []spec.Type) (*Program, error) {
	errs := e.Check(func(name string) (expr.Type, error) {
		slot, ok := slots[name]
		if !ok {
			return expr.Type{}, fmt.Errorf("%s is not among the sources", name)
		}
		return expr.Type{Kind: types[slot].Kind, List: types[slot].List}, nil
	})
	if len(errs) > 0 {
		return nil, errs[0]
	}
	p := &Program{}
	for _, name := range e.Columns() {
		p.columns = append(p.columns, column{slots[name], name, types[slots[name]]})
	}
	c := compiler{slots: slots, types: types, bytes: &p.bytes}
	p.root = c.compile(e, true)
	return p, nil
}

// Bytes is how much memory conditions have that are computed.
func (p *Program) Bytes() int64 { return p.bytes }

// Columns returns the slots that the predicate reads.
func (p *Program) Columns() []int {
	slots := make([]int, len(p.columns))
	for i, c := range p.columns {
		slots[i] = c.slot
	}
	return slots
}

// Select clears the bit of each row for which the predicate is not true. sel has a bit for each of the rows; what
// lies behind the last one is cleared.
func (p *Program) Select(w Window, sel []uint64) error {
	for _, c := range p.columns {
		v := w.Vectors[c.slot]
		if v.Type != c.typ || v.Rows != w.Rows {
			return fmt.Errorf("filter: column %s has %d rows of %v; want %d of %v", c.name, v.Rows, v.Type, w.Rows,
				c.typ)
		}
	}
	if w.Rows == 0 {
		clear(sel)
		return nil
	}
	words := vector.Words(w.Rows)
	p.window = w
	root := p.root.(*junction)
	root.narrow(sel[:words], &p.window)
	clear(sel[words:])
	if tail := w.Rows & 63; tail != 0 {
		sel[words-1] &= 1<<tail - 1
	}
	return nil
}

// compiler turns an Expr into nodes.
type compiler struct {
	slots map[string]int
	types []spec.Type
	bytes *int64 // of formulas
}

// compile returns the node that finds the rows for which e is `want`. The root is always a junction.
func (c compiler) compile(e *filter.Expr, want bool) node {
	n := c.node(e, want)
	if j, ok := n.(*junction); ok && j.all {
		return j
	}
	return &junction{all: true, args: []node{n}}
}

func (c compiler) node(e *filter.Expr, want bool) node {
	switch e.Op {
	case filter.Holds:
		return c.condition(e.Cond, want)
	case filter.Not:
		return c.node(e.Args[0], !want)
	case filter.And, filter.Or:
		// That an `and` is false is an `or` of falsehoods, and the other way round.
		j := &junction{all: (e.Op == filter.And) == want}
		for _, arg := range e.Args {
			j.args = append(j.args, c.node(arg, want))
		}
		return j
	}
	slot, t := c.slots[e.Column], test{negate: !want}
	switch e.Op {
	case filter.IsNull, filter.IsNotNull:
		return &nullTest{slot: slot, null: (e.Op == filter.IsNull) == want}
	case filter.Ne:
		t.op, t.negate = filter.Eq, want
	case filter.NotIn:
		t.op, t.negate = filter.In, want
	default:
		t.op = e.Op
	}
	if e.Computed() {
		return c.computed(e, t)
	}
	return &leaf{slot: slot, values: newMatcher(t, c.types[slot].Kind, e.Values)}
}

// condition is for what is computed of several columns or otherwise.
func (c compiler) condition(e *expr.Node, want bool) node {
	typed, _ := e.CheckTruth(func(name string) (expr.Type, error) { // without mistakes, since Compile looked for them
		return expr.Type{Kind: c.types[c.slots[name]].Kind}, nil
	})
	formula := transform.NewFormula(typed, func(name string) int { return c.slots[name] })
	*c.bytes += formula.Bytes()
	return &condition{formula, want}
}

// condition finds the rows for which a formula is true, or false.
type condition struct {
	formula *transform.Formula
	want    bool
}

func (c *condition) eval(dst []uint64, w *Window) {
	c.formula.Find(dst, c.want, w.Vectors, w.Rows, w.File, w.First)
}

// computed is for tests of what is computed of a column, or of where rows lie.
func (c compiler) computed(e *filter.Expr, t test) node {
	values := newComputed(e.Operand, newInts(t, e.Values))
	if e.OfRow() {
		return places{values}
	}
	return &leaf{slot: c.slots[e.Column], values: values, nulls: e.Hashed && values.nullPasses()}
}

func newMatcher(t test, kind pb.Kind, literals []expr.Value) matcher {
	switch kind {
	case pb.Kind_BOOL:
		return newBools(t, literals)
	case pb.Kind_BINARY:
		return newTexts(t, literals)
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		return newFloats(t, kind, literals)
	default:
		return newInts(t, literals)
	}
}

// junction is an `and` (all) or an `or` of its args.
type junction struct {
	all     bool
	args    []node
	scratch []uint64
}

func (j *junction) eval(dst []uint64, w *Window) {
	if j.all {
		for i := range dst {
			dst[i] = ^uint64(0)
		}
		j.narrow(dst, w)
		return
	}
	clear(dst)
	j.scratch = vector.Grow(j.scratch, len(dst))
	for _, arg := range j.args {
		arg.eval(j.scratch, w)
		for i, bits := range j.scratch {
			dst[i] |= bits
		}
	}
}

// narrow clears in dst what one of the args does not have; it stops once nothing is left.
func (j *junction) narrow(dst []uint64, w *Window) {
	j.scratch = vector.Grow(j.scratch, len(dst))
	for _, arg := range j.args {
		arg.eval(j.scratch, w)
		left := uint64(0)
		for i := range dst {
			dst[i] &= j.scratch[i]
			left |= dst[i]
		}
		if left == 0 {
			return
		}
	}
}

// nullTest finds null rows, or the others.
type nullTest struct {
	slot int
	null bool
}

func (t *nullTest) eval(dst []uint64, w *Window) {
	valid := w.Vectors[t.slot].Valid
	flip := uint64(0)
	if t.null {
		flip = ^uint64(0)
	}
	for i := range dst {
		bits := ^uint64(0)
		if valid != nil {
			bits = valid[i]
		}
		dst[i] = bits ^ flip
	}
}
