package spec

import "github.com/penstock-ml/penstock/api/pb"

// Rows is what a program, or a step of it, makes of the number of rows.
type Rows uint8

// What there is, in ascending order: a program with a step that makes more rows may leave others out, too.
const (
	SameRows  Rows = iota // one of each
	FewerRows             // some are left out
	MoreRows              // none, one or many of each
)

// RowsOf says what a program's filter and steps make of the number of rows.
func RowsOf(p *pb.Program) Rows {
	rows := SameRows
	if p.GetFilter() != "" {
		rows = FewerRows
	}
	for _, s := range p.GetSteps() {
		rows = max(rows, RowsOfStep(s))
	}
	return rows
}

// RowsOfStep says what a step makes of the number of rows. One without results chooses some of them.
func RowsOfStep(s *pb.Step) Rows {
	switch {
	case s.GetPython().GetKind() == pb.FunctionKind_FLAT_MAP:
		return MoreRows
	case s.GetOuts() == 0:
		return FewerRows
	}
	return SameRows
}
