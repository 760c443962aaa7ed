package spec

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
)

// FirstSlots are, for each step of a program, the first slot that it makes, if it makes any.
func FirstSlots(p *pb.Program) []uint32 {
	slots, next := make([]uint32, len(p.GetSteps())), uint32(len(p.GetSources()))
	for i, s := range p.GetSteps() {
		slots[i] = next
		next += s.GetOuts()
	}
	return slots
}

// Deciding finds the steps that decide which rows a program has, with those that make what these read, and the slots
// that all of them read.
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

// DrawsRows reports whether a program draws at random, anew in each epoch, which rows it has.
func DrawsRows(p *pb.Program) bool {
	steps, _ := Deciding(p)
	for i, decides := range steps {
		if decides && draws(p.GetSteps()[i]) {
			return true
		}
	}
	return false
}

// draws reports whether a step may draw random numbers. Beside functions those can that choose rows of the file, and
// those of pictures, by a seed: no others know of which rows their values are.
func draws(s *pb.Step) bool {
	if f := s.GetPython(); f != nil {
		return f.GetRng()
	}
	_, seeded := s.GetParams()["seed"]
	return s.GetOuts() == 0 || s.GetType().GetKind() == pb.Kind_PICTURE && seeded
}
