package transform

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// A function that chooses rows, or that makes others of them, is a barrier: steps listed before it run on the rows
// before, and those listed after it on the rows behind. What lies between two barriers is a stage. Slots that are
// read behind a barrier are gathered there, by the row that each one behind is of.

// barrier is what a step does to the rows of a window.
type barrier struct {
	chooses bool  // some of them, in their order
	most    int64 // rows that become of a row, on average over a window
	crosses []crossing
	chosen  []int32 // see Rows
	held    int64   // bytes of the memory of both
}

// crossing is a slot that is read behind a barrier.
type crossing struct {
	slot    uint32
	excerpt vector.Excerpt
}

// barrierOf is what a step that calls a function does to rows; nil: there are as many behind it.
func barrierOf(s *pb.Step) *barrier {
	switch f := s.GetPython(); f.GetKind() {
	case pb.FunctionKind_FILTER:
		return &barrier{chooses: true}
	case pb.FunctionKind_FLAT_MAP:
		return &barrier{most: int64(cmp.Or(f.GetMost(), spec.DefaultMost))}
	default:
		return nil
	}
}

// cutStages orders steps by their stages, and finds what crosses the barriers. Image ops compute nothing when they run,
// and are of the last stage: what they are made of crosses in their place.
func (c *Chain) cutStages(types []spec.Type, outputs []*pb.Output) {
	barriers := 0
	for i := range c.steps {
		s := &c.steps[i]
		if s.stage = barriers; s.barrier != nil {
			barriers++
		}
	}
	if barriers == 0 {
		return
	}
	made := make([]int, len(types)) // the stage of each slot, and that in which it is read last
	read := make([]int, len(types))
	for i := range c.steps {
		s := &c.steps[i]
		if isPicture(s.typ) {
			s.stage = barriers
		}
		for slot := s.slot; slot < s.end(); slot++ {
			if made[slot] = s.stage; s.barrier != nil {
				made[slot]++ // there are as many as rows behind it
			}
		}
		for _, slot := range s.reads() {
			read[slot] = max(read[slot], s.stage)
		}
	}
	shown(outputs, len(c.sources), read, barriers)
	for _, at := range c.calling {
		s := &c.steps[at]
		for slot := range types {
			if s.barrier != nil && made[slot] <= s.stage && read[slot] > s.stage {
				s.barrier.crosses = append(s.barrier.crosses, crossing{slot: uint32(slot)})
			}
		}
	}
	slices.SortStableFunc(c.order, func(a, b int) int {
		x, y := &c.steps[a], &c.steps[b]
		return cmp.Or(cmp.Compare(x.stage, y.stage), cmp.Compare(x.last(), y.last()))
	})
}

// reads are the slots whose values the step needs. Those of pictures have none.
func (s *step) reads() []uint32 {
	switch {
	case s.apart:
		return nil
	case s.calls != nil && len(s.calls.encoded) > 0:
		return slices.Concat(s.from, s.calls.encoded)
	}
	return s.from
}

// last is more than 0 for the last step of a stage.
func (s *step) last() int {
	if s.barrier != nil {
		return 1
	}
	return 0
}

// shown has the slots that outputs show, or all that steps make if there are no outputs, be read in a stage.
func shown(outputs []*pb.Output, sources int, read []int, stage int) {
	for _, o := range outputs {
		for _, slot := range o.GetSlots() {
			read[slot] = stage
		}
		if o.Weights != nil {
			read[o.GetWeights()] = stage
		}
	}
	for slot := sources; slot < len(read) && len(outputs) == 0; slot++ {
		read[slot] = stage
	}
}

// Barriers names the steps that choose or make rows: "python split or python clean".
func (c *Chain) Barriers() string {
	var names []string
	for _, at := range c.calling {
		if s := &c.steps[at]; s.barrier != nil {
			names = append(names, s.op)
		}
	}
	return strings.Join(names, " or ")
}

// check finds what is wrong with the rows that a function says its results are of.
func (b *barrier) check(parents []int32, rows int) error {
	if !b.chooses && int64(len(parents)) > min(b.most*int64(rows), math.MaxInt32) {
		return b.tooMany(parents, rows)
	}
	before := int32(0)
	for i, row := range parents {
		switch {
		case row < 0 || int(row) >= rows:
			return fmt.Errorf("the function made row %d of row %d, of which there are %d", i, row, rows)
		case row < before:
			return fmt.Errorf("the function made row %d of row %d, behind one of row %d", i, row, before)
		case b.chooses && i > 0 && row == before:
			return fmt.Errorf("the function chose row %d twice", row)
		}
		before = row
	}
	return nil
}

// tooMany is the error of more rows than the bound, about a row of which most became.
func (b *barrier) tooMany(parents []int32, rows int) error {
	became := make([]int, rows)
	for _, row := range parents {
		if row >= 0 && int(row) < rows {
			became[row]++
		}
	}
	if rows == 0 {
		return errors.New("the function made rows of none")
	}
	most := slices.Index(became, slices.Max(became))
	return &RowError{Row: most, What: fmt.Sprintf("became %d rows, and all %d together %d; at most %d for each may "+
		"become of them: have the function make fewer, or allow more by `most`",
		became[most], rows, len(parents), b.most)}
}

// cross has the slots that are read behind a step's barrier hold the rows that are there, and returns how many there
// are.
func (c *Chain) cross(s *step, slots []*vector.Vector, rows int) (int, error) {
	b, parents := s.barrier, s.calls.parents
	if parents == nil || b.chooses && len(parents) == rows {
		return rows, nil
	}
	need := 4 * int64(len(parents))
	for _, x := range b.crosses {
		need += vector.SizeOf(slots[x.slot], parents)
	}
	if err := c.holdFor(b, need); err != nil {
		return 0, err
	}
	b.chosen = vector.Grow(b.chosen, len(parents))
	for i, row := range parents {
		b.chosen[i] = int32(c.rows.Of(int(row)))
	}
	c.rows.Chosen = b.chosen
	for i := range b.crosses {
		x := &b.crosses[i]
		slots[x.slot] = x.excerpt.Take(slots[x.slot], parents)
	}
	need = 4 * int64(cap(b.chosen))
	for i := range b.crosses {
		need += b.crosses[i].excerpt.Held()
	}
	if err := c.holdFor(b, need); err != nil {
		return 0, err
	}
	for i := range c.steps {
		if k, ok := c.steps[i].kernel.(Placed); ok && c.steps[i].stage > s.stage {
			k.Place(c.rows, c.pictures)
		}
	}
	return len(parents), nil
}

// holdFor takes memory for what crosses a barrier.
func (c *Chain) holdFor(b *barrier, bytes int64) error {
	err := c.keep(bytes - b.held)
	if err == nil {
		b.held = max(b.held, bytes)
	}
	return err
}
