package spec

import (
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
)

// Rows is what a program, or a step of it, makes of the number of rows.
type Rows uint8

// What there is, in ascending order: a program with a step that makes more rows may leave others out, too.
const (
	SameRows  Rows = iota // one of each
	FewerRows             // some are left out
	MoreRows              // none, one or many of each
)

// RowsOf says what a program makes of the number of rows of files: its filter, its steps, and tables that have deleted
// some.
func RowsOf(p *pb.Program) Rows {
	if p.GetExcludes() {
		return max(FewerRows, RowsOfLeft(p))
	}
	return RowsOfLeft(p)
}

// RowsOfLeft says what a program's filter and steps make of the rows that tables have not deleted.
func RowsOfLeft(p *pb.Program) Rows {
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
func RowsOfStep(s *pb.Step) Rows { return rowsOf(s.GetPython(), s.GetOuts() == 0) }

// sampleOp is the op that chooses rows of files.
const sampleOp = "sample"

// RowsOfSpec says as much of a spec as RowsOf of its program, for those who have no catalog to resolve it by.
func RowsOfSpec(s *pb.Spec) Rows {
	rows := SameRows
	if s.GetFilter() != "" {
		rows = FewerRows
	}
	for _, t := range s.GetTransforms() {
		f := t.GetPython()
		rows = max(rows, rowsOf(f, t.GetOp() == sampleOp || f.GetKind() == pb.FunctionKind_FILTER))
	}
	return rows
}

// rowsOf says what an op, which may be a function, makes of the number of rows; chooses: it makes nothing else.
func rowsOf(f *pb.Function, chooses bool) Rows {
	switch {
	case f.GetKind() == pb.FunctionKind_FLAT_MAP:
		return MoreRows
	case chooses:
		return FewerRows
	}
	return SameRows
}

// MostRows is how many rows a program makes at most of so many rows of a window.
func MostRows(p *pb.Program, rows uint32) uint32 {
	most := uint64(rows)
	for _, s := range p.GetSteps() {
		if f := s.GetPython(); f.GetKind() == pb.FunctionKind_FLAT_MAP {
			most = min(most*uint64(f.GetMost()), maxWindow)
		}
	}
	return uint32(most)
}

// maxWindow is how many rows a window has at most, behind each step.
const maxWindow = math.MaxInt32

// HasParts reports whether the rows of a program have numbers within their source rows, by provenance.
func HasParts(p *pb.Program) bool { return p.GetProvenance() && RowsOf(p) == MoreRows }

// Calls reports whether a program calls functions.
func Calls(p *pb.Program) bool {
	return slices.ContainsFunc(p.GetSteps(), func(s *pb.Step) bool { return s.GetOp() == FunctionOp })
}
