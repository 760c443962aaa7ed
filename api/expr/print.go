package expr

import (
	"strings"
)

// How strongly parts of an expression bind, from the weakest.
const (
	ofOr = iota + 1
	ofAnd
	ofNot
	ofTest
	ofSum
	ofProduct
	ofSign
	ofPrimary
)

func (n *Node) strength() int {
	switch n.Op {
	case Or:
		return ofOr
	case And:
		return ofAnd
	case Not:
		return ofNot
	case Eq, Ne, Lt, Le, Gt, Ge, In, NotIn, IsNull, IsNotNull, Between:
		return ofTest
	case Add, Sub:
		return ofSum
	case Mul, Div, Mod:
		return ofProduct
	case Neg:
		return ofSign
	}
	return ofPrimary
}

// String prints the expression canonically; Parse reads it back to an equal tree, but for At.
func (n *Node) String() string {
	var b strings.Builder
	n.print(&b)
	return b.String()
}

func (n *Node) print(b *strings.Builder) {
	switch n.Op {
	case And, Or:
		n.join(b, " "+n.Op.String()+" ", ofNot)
	case Not:
		b.WriteString("not ")
		n.Args[0].within(b, ofNot)
	case IsNull, IsNotNull:
		n.Args[0].within(b, ofSum)
		b.WriteString(" " + n.Op.String())
	case In, NotIn:
		n.Args[0].within(b, ofSum)
		b.WriteString(" " + n.Op.String() + " ")
		b.WriteString(Set(n.Values))
	case Between:
		n.Args[0].within(b, ofSum)
		b.WriteString(" between ")
		n.Args[1].within(b, ofSum)
		b.WriteString(" and ")
		n.Args[2].within(b, ofSum)
	case Neg:
		b.WriteByte('-')
		if n.Args[0].Op == Literal { // or else it would be read as one literal
			b.WriteString("(" + n.Args[0].String() + ")")
		} else {
			n.Args[0].within(b, ofSign)
		}
	case Literal:
		b.WriteString(n.Values[0].String())
	case Null:
		b.WriteString("null")
	case Column:
		b.WriteString(ColumnName(n.Name))
	case Row:
		b.WriteString("row()")
	case Case:
		n.printCase(b)
	case Cast:
		b.WriteString("cast(" + n.Args[0].String() + " as " + KindName(n.To) + ")")
	case Hash:
		b.WriteString("hash(" + n.Args[0].String() + ", " + n.Values[0].String() + ")")
	default:
		n.printOther(b)
	}
}

// printOther prints what has operands on both sides, and functions.
func (n *Node) printOther(b *strings.Builder) {
	strength := n.strength()
	if strength == ofPrimary {
		b.WriteString(n.Op.String() + "(")
		n.join(b, ", ", ofOr)
		b.WriteByte(')')
		return
	}
	left := strength
	if strength == ofTest { // comparisons are not chained
		left++
	}
	n.Args[0].within(b, left)
	b.WriteString(" " + n.Op.String() + " ")
	n.Args[1].within(b, strength+1)
}

func (n *Node) join(b *strings.Builder, by string, least int) {
	for i, arg := range n.Args {
		if i > 0 {
			b.WriteString(by)
		}
		arg.within(b, least)
	}
}

func (n *Node) printCase(b *strings.Builder) {
	b.WriteString("case")
	for i := 0; i+1 < len(n.Args); i += 2 {
		b.WriteString(" when " + n.Args[i].String() + " then " + n.Args[i+1].String())
	}
	if len(n.Args)%2 == 1 {
		b.WriteString(" else " + n.Args[len(n.Args)-1].String())
	}
	b.WriteString(" end")
}

// within prints a part of something that takes only parts of some strength without parentheses.
func (n *Node) within(b *strings.Builder, least int) {
	if n.strength() >= least {
		n.print(b)
		return
	}
	b.WriteByte('(')
	n.print(b)
	b.WriteByte(')')
}

// Set writes literals as `in` takes them.
func Set(values []Value) string {
	var b strings.Builder
	for i, v := range values {
		if b.WriteString(", "); i == 0 {
			b.Reset()
			b.WriteByte('(')
		}
		b.WriteString(v.String())
	}
	return b.String() + ")"
}

// ColumnName writes a name bare where the language can read it so, else in backticks.
func ColumnName(name string) string {
	bare := !isKeyword(name) && !strings.EqualFold(name, "case")
	for i, r := range name {
		bare = bare && (isNameStart(r) || i > 0 && isNamePart(r))
	}
	if bare {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}
