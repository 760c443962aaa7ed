package filter

import (
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
)

// Op is what a node of an Expr does.
type Op uint8

// Ops.
const (
	And       = Op(expr.And)       // all of Args
	Or        = Op(expr.Or)        // any of Args
	Not       = Op(expr.Not)       // Args[0] is false
	Eq        = Op(expr.Eq)        // Operand == Values[0], and so on
	Ne        = Op(expr.Ne)        //
	Lt        = Op(expr.Lt)        //
	Le        = Op(expr.Le)        //
	Gt        = Op(expr.Gt)        //
	Ge        = Op(expr.Ge)        //
	In        = Op(expr.In)        // Operand equals one of Values
	NotIn     = Op(expr.NotIn)     // Operand equals none of Values
	IsNull    = Op(expr.IsNull)    // Operand is null
	IsNotNull = Op(expr.IsNotNull) // Operand is not null
	Holds     = IsNotNull + 1      // Cond is true
)

// String is the op as it is written in the language.
func (o Op) String() string { return expr.Op(o).String() }

// Expr is a node of a parsed predicate: a junction of others, a test of one operand, or any other condition.
type Expr struct {
	Op Op
	// Args of And and Or (two or more, none of the same Op) and of Not (one).
	Args []*Expr
	// Operand that the other ops test.
	Operand
	// Values are the literals: one of a comparison, one or more of In and NotIn.
	Values []expr.Value
	// Cond of Holds: neither a junction nor such a test, and of no known outcome before it is computed.
	Cond *expr.Node
}

// String prints the predicate canonically; Parse reads it back to an equal Expr.
func (e *Expr) String() string {
	var b strings.Builder
	e.print(&b)
	return b.String()
}

func (e *Expr) print(b *strings.Builder) {
	switch e.Op {
	case And, Or:
		for i, arg := range e.Args {
			if i > 0 {
				b.WriteString(" " + e.Op.String() + " ")
			}
			arg.printOperand(b)
		}
	case Not:
		b.WriteString("not ")
		e.Args[0].printOperand(b)
	case IsNull, IsNotNull:
		b.WriteString(e.Operand.String() + " " + e.Op.String())
	case In, NotIn:
		b.WriteString(e.Operand.String() + " " + e.Op.String() + " " + expr.Set(e.Values))
	case Holds:
		b.WriteString(e.Cond.String())
	default:
		b.WriteString(e.Operand.String() + " " + e.Op.String() + " " + e.Values[0].String())
	}
}

func (e *Expr) printOperand(b *strings.Builder) {
	if e.Op != And && e.Op != Or {
		e.print(b)
		return
	}
	b.WriteByte('(')
	e.print(b)
	b.WriteByte(')')
}

// Columns returns the names of all columns that the predicate tests, sorted, each once.
func (e *Expr) Columns() []string {
	names := e.appendColumns(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

// OfRows reports whether the predicate looks at the places of rows.
func (e *Expr) OfRows() bool {
	return e.OfRow() || e.Cond != nil && e.Cond.OfRows() || slices.ContainsFunc(e.Args, (*Expr).OfRows)
}

func (e *Expr) appendColumns(names []string) []string {
	if e.Column != "" {
		names = append(names, e.Column)
	}
	if e.Cond != nil {
		names = append(names, e.Cond.Columns()...)
	}
	for _, arg := range e.Args {
		names = arg.appendColumns(names)
	}
	return names
}
