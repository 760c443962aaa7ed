package expr

import (
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// Op is what a node of an expression does.
type Op uint8

// Ops. Those from Coalesce on are written as functions.
const (
	And         Op = iota + 1 // all of Args
	Or                        // any of Args
	Not                       // Args[0] is false
	Eq                        // Args[0] == Args[1], and so on
	Ne                        //
	Lt                        //
	Le                        //
	Gt                        //
	Ge                        //
	In                        // Args[0] equals one of Values
	NotIn                     // Args[0] equals none of Values
	IsNull                    // Args[0] is null
	IsNotNull                 // Args[0] is not null
	Between                   // Args[1] <= Args[0] <= Args[2]
	Neg                       // -Args[0]
	Add                       // Args[0] + Args[1], and so on
	Sub                       //
	Mul                       //
	Div                       //
	Mod                       //
	Literal                   // Values[0]
	Null                      // a case's value
	Column                    // of name Name
	Row                       // the row's place, which Hash alone takes
	Case                      // Args are conditions, each with its value behind it, and the value else, if there is one
	Cast                      // Args[0] converted to kind To
	Convert                   // what Check puts before numbers of another kind than they are computed in
	Coalesce                  // the first of Args that is not null
	NullIf                    // null where Args[0] == Args[1], else Args[0]
	Least                     // of Args, without nulls
	Greatest                  //
	Abs                       //
	Floor                     //
	Ceil                      //
	Round                     // halves away from zero
	Sqrt                      //
	Exp                       //
	Ln                        //
	Log1p                     //
	Pow                       // Args[0] to the power of Args[1]
	Hash                      // of Args[0], by the seed Values[0]
	Length                    // in characters
	OctetLength               // in bytes
	Lower                     //
	Upper                     //
)

// String is the op as it is written in the language.
func (o Op) String() string {
	names := [...]string{
		"", "and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "is null", "is not null", "between",
		"-", "+", "-", "*", "/", "%", "literal", "null", "column", "row", "case", "cast", "convert", "coalesce",
		"nullif", "least", "greatest", "abs", "floor", "ceil", "round", "sqrt", "exp", "ln", "log1p", "pow", "hash",
		"length", "octet_length", "lower", "upper",
	}
	if int(o) >= len(names) {
		return ""
	}
	return names[o]
}

// Node is a part of an expression: what is done with its Args.
type Node struct {
	Op     Op
	Args   []*Node
	Values []Value // literals: one of Literal and Hash, some of In and NotIn
	Name   string  // of Column
	To     pb.Kind // of Cast
	At     int     // character of the text, from 1
	// Kind of the result: of what Check returned, else unspecified. Of Null, that of the case.
	Kind pb.Kind
}

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

// KindName is a kind as Cast and messages have it.
func KindName(k pb.Kind) string {
	if k == pb.Kind_BINARY {
		return "text"
	}
	return Type{Kind: k}.String()
}

// Renamed is the expression over columns of other names.
func (n *Node) Renamed(to func(column string) string) *Node {
	other := *n
	if n.Op == Column {
		other.Name = to(n.Name)
	}
	other.Args = make([]*Node, len(n.Args))
	for i, arg := range n.Args {
		other.Args[i] = arg.Renamed(to)
	}
	return &other
}

// Columns returns the names of all columns that the expression reads, sorted, each once.
func (n *Node) Columns() []string {
	names := n.appendColumns(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

func (n *Node) appendColumns(names []string) []string {
	if n.Op == Column {
		names = append(names, n.Name)
	}
	for _, arg := range n.Args {
		names = arg.appendColumns(names)
	}
	return names
}

// OfRows reports whether the expression looks at the places of rows.
func (n *Node) OfRows() bool { return n.Op == Row || slices.ContainsFunc(n.Args, (*Node).OfRows) }

// Size is the number of the tree's nodes.
func (n *Node) Size() int {
	size := 1
	for _, arg := range n.Args {
		size += arg.Size()
	}
	return size
}
