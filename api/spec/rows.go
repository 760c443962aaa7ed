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

// FirstSlots are, for each step of a program, the first slot that it makes, if it makes any.
func FirstSlots(p *pb.Program) []uint32 {
	slots, next := make([]uint32, len(p.GetSteps())), uint32(len(p.GetSources()))
	for i, s := range p.GetSteps() {
		slots[i] = next
		next += s.GetOuts()
	}
	return slots
}

// Deciding finds the steps that decide which rows there are, and the slots that those read. The filter is none of them.
func Deciding(p *pb.Program) (steps []bool, read map[uint32]bool) {
	steps, read = make([]bool, len(p.GetSteps())), map[uint32]bool{}
	for i, first := range slices.Backward(FirstSlots(p)) {
		s := p.GetSteps()[i]
		steps[i] = RowsOfStep(s) != SameRows
		for k := range s.GetOuts() {
			steps[i] = steps[i] || read[first+k]
		}
		for _, slot := range s.GetIn() {
			if steps[i] {
				read[slot] = true
			}
		}
	}
	return steps, read
}

// DrawsRows reports whether random numbers decide which rows a program has: windows then have other numbers of rows in
// another epoch.
func DrawsRows(p *pb.Program) bool {
	steps, _ := Deciding(p)
	for i, s := range p.GetSteps() {
		if steps[i] && draws(s) {
			return true
		}
	}
	return false
}

// draws reports whether a step draws random numbers. All ops that do so take a seed; those that choose rows count
// among them.
func draws(s *pb.Step) bool {
	if s.GetOp() == FunctionOp {
		return s.GetPython().GetRng()
	}
	return s.GetOuts() == 0 || s.GetParams()["seed"] != nil
}
