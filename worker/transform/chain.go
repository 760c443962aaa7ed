package transform

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Chain is a Program's steps, ready to run over the windows of one stream. It owns the memory of their results.
type Chain struct {
	sources   []spec.Type
	names     []string // of the sources
	steps     []step
	selectors []selecting
	slots     []*vector.Vector
	order     []int   // in which steps run
	calling   []int   // those that call functions
	dead      [][]int // for each step, those whose values are spare after it
	early     []int   // for each source, the step that may be taken early; -1: there is none
	// for each source, whether all that read it, or the step that may be taken early, take narrow values
	narrow  []bool
	stacked []bool // for each source, whether only dense outputs read it
	spares  spares
	ran     func(step int) // nil: nobody wants to know
	ask     Ask
	tables  int64 // bytes of those that kernels look values up in
	kept    int64 // bytes of memory that kernels work in, as far as they asked for it
	rows    Rows  // that Run gets next, or got, and then those that slots have

	pictures images.Room // what they may take
	passed   int         // how many rows the slots have
}

// selecting is one step that chooses rows.
type selecting struct {
	selector Selector
	from     []uint32 // sources
	in       []*vector.Vector
}

// step is one step that makes slots.
type step struct {
	kernel Kernel
	op     string
	label  string // "transforms[3] (clamp of int_1)", for messages
	from   []uint32
	in     []*vector.Vector
	slot   int // the first that it makes
	outs   int // how many it makes
	out    vector.Vector
	more   []vector.Vector // results beyond the first
	typ    spec.Type       // of the first
	stage  int             // see barrier

	swells  bool   // it is a Sizer, or works on the result of one
	borrows bool   // see Borrower
	shares  bool   // its inputs' values, at times
	holds   bool   // memory for its values
	memory  memory // that it holds
	early   bool   // whoever makes its input may have taken it
	apart   bool   // it runs before the functions that take its pictures alone

	calls     *calling  // nil: the kernel is run
	barrier   *barrier  // nil: there are as many rows behind it
	guest     *guest    // nil: the op is built in
	scratcher Scratcher // nil if it is none
	scratch   int64     // bytes that it works in
}

// Ask is who is asked for memory before it is taken, in bytes, and for patience. An error ends Run.
type Ask struct {
	Result  func(bytes int64) error // of a step's result that may be far larger than the sources let expect
	Scratch func(bytes int64) error // beyond Chain.Scratch, which it is part of from then on
	Wait    func() error            // Call.Wait
	Skip    func() int              // Call.Skip; nil: none may fail
	Session string                  // Call.Session
}

// Ops names the op of each step that makes slots.
func (c *Chain) Ops() []string {
	out := make([]string, len(c.steps))
	for i := range c.steps {
		out[i] = c.steps[i].op
	}
	return out
}

// Watch has f called after each run of steps of the same op that Run ran, with the number in Ops of the last one:
// hundreds of columns go through the same op, and to ask for the time after each takes longer than some steps.
func (c *Chain) Watch(f func(step int)) { c.ran = f }

// Ask has memory be asked for. Without, as with one that is empty, it is taken.
func (c *Chain) Ask(ask Ask) { c.ask = ask }

// Selects reports whether the Program has steps that choose rows.
func (c *Chain) Selects() bool { return len(c.selectors) > 0 }

// Computes reports whether the Program has steps whose work Run does, for each row that it gets.
func (c *Chain) Computes() bool {
	return slices.ContainsFunc(c.steps, func(s step) bool { return s.typ.Kind != pb.Kind_PICTURE })
}

// SelectsBy returns the sources that steps look at which choose rows, each once.
func (c *Chain) SelectsBy() (sources []int) {
	for _, s := range c.selectors {
		for _, slot := range s.from {
			if !slices.Contains(sources, int(slot)) {
				sources = append(sources, int(slot))
			}
		}
	}
	return sources
}

// Select clears the bits of rows that the Program's steps leave out; sel has a bit for each of rows.N rows. Of the
// sources those of SelectsBy must be there.
func (c *Chain) Select(rows Rows, sources []*vector.Vector, sel []uint64) {
	for _, s := range c.selectors {
		for i, slot := range s.from {
			s.in[i] = sources[slot]
		}
		s.selector.Select(rows, s.in, sel)
	}
}

// Placed is a kernel whose results depend on where a row lies.
type Placed interface {
	// Place tells of the window that Run is called for next, and of the memory that its pictures may take.
	Place(rows Rows, room images.Room)
}

// Place says which rows Run gets next, for ops that draw random numbers and for messages, and what memory each of their
// pictures may take while it is made.
func (c *Chain) Place(rows Rows, room images.Room) {
	c.rows, c.pictures = rows, room
	for i := range c.steps {
		if k, ok := c.steps[i].kernel.(Placed); ok {
			k.Place(rows, room)
		}
	}
}

// Makes is how many values each result of step number at in Ops has of so many rows; 0 if its inputs decide.
func (c *Chain) Makes(at int, rows int64) int64 {
	if m, ok := c.steps[at].kernel.(Maker); ok {
		return m.Makes(rows)
	}
	return 0
}

// Keep counts memory that is as old as the chain, and no step's, with that of Tables.
func (c *Chain) Keep(bytes int64) { c.tables += bytes }

// Tables is the memory of what the steps look values up in, in bytes.
func (c *Chain) Tables() int64 { return c.tables }

// Kept is the memory of what the steps look values up in, and of what they work in, in bytes.
func (c *Chain) Kept() int64 { return c.tables + c.kept }

// Scratch is that, and the memory that they made pictures in.
func (c *Chain) Scratch() int64 {
	n := c.Kept()
	for i := range c.steps {
		if k, ok := c.steps[i].kernel.(*decoding); ok {
			n += k.studio.Scratch()
		}
	}
	return n
}

// Run computes the steps of one window from its sources, and returns all slots: the sources, then the steps' results.
// They and the slice are valid until the next Run; results that are no outputs of the Program, but only what others are
// made of, have no values any more. Where functions choose rows, or make others, slots have those that are there in the
// end; if there are none, slots are of no use.
func (c *Chain) Run(ctx context.Context, sources []*vector.Vector) ([]*vector.Vector, error) {
	if err := c.checkSources(sources); err != nil {
		return nil, err
	}
	slots := c.slots
	copy(slots, sources)
	rows := 0
	if len(sources) > 0 {
		rows = sources[0].Rows
	}
	last := -1 // that ran
	for _, at := range c.order {
		s := &c.steps[at]
		if s.early && slots[s.from[0]].Early {
			s.out = *slots[s.from[0]]
		} else {
			if last >= 0 && c.steps[last].op != s.op {
				c.report(last)
			}
			if err := c.runStep(ctx, s, slots, rows); err != nil {
				return nil, c.placed(s.label, err)
			}
			last = at
		}
		if s.barrier != nil {
			var err error
			if rows, err = c.cross(s, slots, rows); err != nil {
				return nil, fmt.Errorf("%s: %w", s.label, err)
			}
		}
		if s.outs > 0 {
			slots[s.slot] = &s.out
		}
		for i := range s.more {
			slots[s.slot+1+i] = &s.more[i]
		}
		if c.retire(c.dead[at]); rows == 0 && s.barrier != nil {
			break
		}
	}
	c.passed = rows
	if last >= 0 {
		c.report(last)
	}
	return slots, nil
}

// Passed is how many rows the slots of the last Run have, and which rows of the window these are of; nil: of each one.
func (c *Chain) Passed() (rows int, chosen []int32) { return c.passed, c.rows.Chosen }

// report tells who watches.
func (c *Chain) report(step int) {
	if c.ran != nil {
		c.ran(step)
	}
}

// runStep runs a step; if it borrows, on memory that nobody reads any more.
func (c *Chain) runStep(ctx context.Context, s *step, slots []*vector.Vector, rows int) error {
	if s.borrows {
		if !s.holds {
			s.memory, s.holds = c.spares.take(s.typ.Kind), true
		}
		s.memory.into(&s.out)
	}
	if err := c.run(ctx, s, slots, rows); err != nil {
		return err
	}
	if s.borrows && (!s.shares ||
		!slices.ContainsFunc(s.in, func(v *vector.Vector) bool { return sharesValues(&s.out, v) })) {
		s.memory = memoryOf(&s.out)
	}
	return nil
}

// retire takes back the memory of steps whose values nobody reads any more.
func (c *Chain) retire(dead []int) {
	for _, at := range dead {
		d := &c.steps[at]
		if d.holds {
			c.spares.give(d.typ.Kind, d.memory)
			d.memory, d.holds = memory{}, false
		}
		d.memory.into(&d.out)
	}
}

func (c *Chain) checkSources(sources []*vector.Vector) error {
	if len(sources) != len(c.sources) {
		return fmt.Errorf("transform: found %d sources, the program has %d", len(sources), len(c.sources))
	}
	for i, v := range sources {
		if v.Type != c.sources[i] || v.Rows != sources[0].Rows {
			return fmt.Errorf("transform: source %s is %d rows of %v, the window has %d, of %v",
				c.names[i], v.Rows, v.Type, sources[0].Rows, c.sources[i])
		}
		if v.U32 != nil && !c.mayBeNarrow(i, v) {
			return fmt.Errorf("transform: source %s has values of 32 bits, which those who read it do not know",
				c.names[i])
		}
	}
	return nil
}

func (c *Chain) run(ctx context.Context, s *step, slots []*vector.Vector, rows int) (err error) {
	defer rescue.As(&err, rescue.Op)
	for i, slot := range s.from {
		s.in[i] = slots[slot]
	}
	if s.calls != nil {
		return c.call(ctx, s, slots, rows)
	}
	s.out.Type, s.out.Rows, s.out.U32, s.out.Early = s.typ, rows, nil, false
	if s.swells && c.ask.Result != nil {
		bytes, err := s.size()
		if err == nil {
			err = c.ask.Result(bytes)
		}
		if err != nil {
			return err
		}
	}
	if (s.scratcher != nil || s.guest != nil) && c.ask.Scratch != nil {
		if more := s.works() - s.scratch; more > 0 {
			if err := c.ask.Scratch(more); err != nil {
				return err
			}
			s.scratch, c.kept = s.scratch+more, c.kept+more
		}
	}
	if s.guest != nil {
		return s.runGuest(rows)
	}
	if err := s.kernel.Run(&s.out, s.in); err != nil {
		return err
	}
	return wellFormed(&s.out, s.typ, rows)
}

func (s *step) runGuest(rows int) error {
	if err := s.guest.enter(&s.out, s.in); err != nil {
		return err
	}
	if err := s.kernel.Run(&s.out, s.in); err != nil {
		return err
	}
	if err := s.guest.settle(&s.out); err != nil {
		return err
	}
	if err := wellFormed(&s.out, s.typ, rows); err != nil {
		return err
	}
	s.guest.leave(&s.out)
	return nil
}

// works is how many bytes the step works in, at most.
func (s *step) works() (bytes int64) {
	if s.scratcher != nil {
		bytes = s.scratcher.Scratch(s.in)
	}
	if s.guest != nil {
		bytes += s.guest.takes(s.in)
	}
	return bytes
}

// size is how many bytes the result takes, at most.
func (s *step) size() (bytes int64, err error) {
	if k, ok := s.kernel.(textFormula); ok {
		return k.size(s.out.Rows, s.in), nil
	}
	if k, ok := s.kernel.(Sizer); ok {
		return k.Size(s.in)
	}
	if k, ok := s.kernel.(Maker); ok {
		bytes = 8 * k.Makes(int64(s.out.Rows))
	}
	if !s.typ.List && s.typ.Kind != pb.Kind_BINARY {
		return 10*int64(s.out.Rows) + 1<<10, nil
	}
	for _, v := range s.in {
		bytes += 8 * int64(v.Len()+v.Rows)
		if s.typ.Kind == pb.Kind_BINARY {
			bytes += int64(len(v.Data))
		}
	}
	return bytes, nil
}

// wellFormed checks the lengths of a kernel's result, so that those who read it need not fear an op's mistake.
func wellFormed(v *vector.Vector, t spec.Type, rows int) error {
	if v.Type != t || v.Rows != rows {
		return fmt.Errorf("the op made %d rows of %v, not %d of %v", v.Rows, v.Type, rows, t)
	}
	if t.List && (len(v.Offsets) != rows+1 || v.Offsets[0] != 0 || v.Offsets[rows] < 0) {
		return fmt.Errorf("the op made %d offsets for %d rows, or such that do not start at 0", len(v.Offsets), rows)
	}
	n := v.Len()
	if v.Valid != nil && len(v.Valid) < vector.Words(rows) || t.List && v.ElemValid != nil &&
		len(v.ElemValid) < vector.Words(n) {
		return errors.New("the op made a validity bitmap that is too short")
	}
	if have := valuesOf(v); have < n {
		return fmt.Errorf("the op made %d values where there should be %d", have, n)
	}
	return nil
}

// valuesOf is the length of the slice that holds v's values.
func valuesOf(v *vector.Vector) int {
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		return len(v.Bool)
	case pb.Kind_INT32:
		return len(v.I32)
	case pb.Kind_INT64:
		return len(v.I64)
	case pb.Kind_FLOAT32:
		return len(v.F32)
	case pb.Kind_FLOAT64:
		return len(v.F64)
	case pb.Kind_BINARY:
		return max(0, len(v.Ends)-1)
	case pb.Kind_PICTURE:
		if v.Pictures != nil {
			return v.Rows
		}
	}
	return -1
}
