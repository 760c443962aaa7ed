package filter

import (
	"slices"
	"strings"
)

// Op is what a node of an Expr does.
type Op uint8

// Ops.
const (
	And       Op = iota + 1 // all of Args
	Or                      // any of Args
	Not                     // Args[0] is false
	Eq                      // Operand == Values[0], and so on
	Ne                      //
	Lt                      //
	Le                      //
	Gt                      //
	Ge                      //
	In                      // Operand equals one of Values
	NotIn                   // Operand equals none of Values
	IsNull                  // Operand is null
	IsNotNull               // Operand is not null
)

// String is the op as it is written in the language.
func (o Op) String() string {
	names := [...]string{
		"", "and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null",
	}
	if int(o) >= len(names) {
		return ""
	}
	return names[o]
}

// Expr is a node of a parsed predicate: a junction of others, or a test of one operand.
type Expr struct {
	Op Op
	// Args of And and Or (two or more, none of the same Op) and of Not (one).
	Args []*Expr
	// Operand that the other ops test.
	Operand
	// Values are the literals: one of a comparison, one or more of In and NotIn.
	Values []Value
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
		b.WriteString(e.Operand.String() + " " + e.Op.String() + " (")
		for i, v := range e.Values {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(v.String())
		}
		b.WriteByte(')')
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

// ColumnName writes a name as an expression has it: bare where the language can read it so, else in backticks.
func ColumnName(name string) string {
	bare := !isKeyword(name)
	for i, r := range name {
		bare = bare && (isNameStart(r) || i > 0 && isNamePart(r))
	}
	if bare {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// Columns returns the names of all columns that the predicate tests, sorted, each once.
func (e *Expr) Columns() []string {
	names := e.appendColumns(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

// OfRows reports whether the predicate looks at the places of rows.
func (e *Expr) OfRows() bool { return e.OfRow() || slices.ContainsFunc(e.Args, (*Expr).OfRows) }

func (e *Expr) appendColumns(names []string) []string {
	if e.Column != "" {
		names = append(names, e.Column)
	}
	for _, arg := range e.Args {
		names = arg.appendColumns(names)
	}
	return names
}
