package transform

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Functions gives the user's functions that a Program's steps call.
type Functions interface {
	// Function returns what a step calls with inputs of the given types, for one Chain.
	Function(step *pb.Step, in []spec.Type) (Function, error)
}

// Function is a function of the user's. It belongs to one Chain; its Call is not called concurrently.
type Function interface {
	// Call fills c.Out, and c.Parents if the function does not make one row of each. It returns when the function has,
	// or soon after ctx has ended. A RowError names a row of the inputs.
	Call(ctx context.Context, c *Call) error
	// Close gives up what is kept from one call to the next. It is called once, behind the last call, and does not
	// wait for anything: others may wait for the memory.
	Close()
}

// Call is one call of a Function: a window's rows that passed what stands before it, in the file's order.
type Call struct {
	Rows    Rows   // where they lie
	N       int    // how many, at least one
	Session string // that they are read for, for what is logged; "": nobody says
	// In are the inputs, with values of their type: neither codes, nor 32 bits of a wider one. Where they are null they
	// hold anything, which the user's code must not see. Pictures have been made: Data and Ends are their pixels, row
	// by row from the top, and channel after channel in each. None has floats.
	In []*vector.Vector
	// Sizes has, of each input of pictures, height and width of the one of each row; of other inputs it has nil.
	Sizes [][]int32
	// Seeds are what the function draws random numbers from, if it says that it does: one for each row, which depends
	// on where the row lies, the epoch and the function's place alone.
	Seeds []uint64
	// Out has a vector for each result, of the type that the step says. The function makes the rest of it: rows,
	// values, and all bitmaps and offsets anew. What it assigns is its own, and stays as it is until the next call.
	Out []*vector.Vector
	// Parents has the row of the inputs that each row of the results is of, never falling; nil: row i is of row i, as
	// it always is of a map. A filter, which makes no results, names each row that it keeps, once.
	Parents []int32
	// Skip is how many rows may fail by their own values. Failed are those that did, ascending: the results have none
	// of them, and of a map one for each other row. If one more fails, Call returns a RowsError of all.
	Skip   int
	Failed []RowError
	// Room is asked before results, or what the function keeps besides, take so many bytes more than in the calls
	// before. They are the Function's until it is closed. An error ends the call.
	Room func(bytes int64) error
	// Wait is called now and then while the function runs, or waits to, by who called. It does not block. An error ends
	// the call.
	Wait func() error
}

// FunctionError says that a Program's function cannot be had. Another worker may have it.
type FunctionError struct{ Err error }

func (e *FunctionError) Error() string { return e.Err.Error() }

func (e *FunctionError) Unwrap() error { return e.Err }

// python is the op of steps that call functions.
const python = spec.FunctionOp

// calling is a step's Function, and what it is called with.
type calling struct {
	function Function
	out      []*vector.Vector
	types    []spec.Type // of the results
	names    []string    // of them, for messages
	room     func(bytes int64) error
	parents  []int32 // of the last call
	draws    bool
	place    string   // among the transforms
	seeds    []uint64 // for the last call, if it draws

	darkrooms []*darkroom
	encoded   []uint32  // the slots of what their pictures are decoded from
	sizes     [][]int32 // see Call

	made recalled
}

// functionLabel names a step that calls a function, for messages.
func functionLabel(s *pb.Step) string {
	return fmt.Sprintf("%s (%s %s)", s.GetAt(), python, s.GetPython().GetName())
}

// addFunction adds a step that calls a function.
func (c *compiler) addFunction(s *pb.Step) (err error) {
	if err := checkFunction(s, c.types, c.functions); err != nil {
		return err
	}
	f := &calling{room: c.keep, types: resultsOf(s), draws: s.GetPython().GetRng(), place: s.GetAt()}
	if f.names = strings.Split(s.GetName(), ", "); len(f.names) != len(f.types) {
		f.names = make([]string, len(f.types))
	}
	in := make([]spec.Type, len(s.GetIn()))
	for i, slot := range s.GetIn() {
		in[i] = c.types[slot]
	}
	if f.function, err = c.functions.Function(s, in); err != nil {
		return &FunctionError{err}
	}
	f.out, f.sizes = make([]*vector.Vector, len(f.types)), make([][]int32, len(in))
	c.calling = append(c.calling, len(c.steps))
	made := step{
		op:      python + " " + s.GetPython().GetName(),
		label:   functionLabel(s),
		from:    s.GetIn(),
		in:      make([]*vector.Vector, len(in)),
		slot:    len(c.types),
		outs:    len(f.types),
		more:    make([]vector.Vector, max(0, len(f.types)-1)),
		calls:   f,
		barrier: barrierOf(s),
	}
	for _, t := range f.types {
		c.add(t, true)
	}
	if made.barrier != nil {
		c.behind, c.grows = true, c.grows || !made.barrier.chooses
	}
	c.steps = append(c.steps, made)
	return nil
}

// resultsOf are the types of what a function makes.
func resultsOf(s *pb.Step) (types []spec.Type) {
	if s.GetPython().GetKind() == pb.FunctionKind_FILTER {
		return nil
	}
	for _, t := range append([]*pb.Type{s.GetType()}, s.GetMore()...) {
		types = append(types, spec.TypeFromProto(t))
	}
	return types
}

// checkFunction finds what is wrong with a step that calls a function, or what this release does not know of it.
func checkFunction(s *pb.Step, slots []spec.Type, from Functions) error {
	f := s.GetPython()
	switch kind := f.GetKind(); {
	case s.GetVersion() != spec.FunctionVersion || len(f.ProtoReflect().GetUnknown()) > 0 ||
		kind > pb.FunctionKind_FLAT_MAP:
		return fmt.Errorf("%w %s of version %d and kind %v: this worker has version %d; "+
			"run one of the release that opened the session",
			ErrUnknownOp, python, s.GetVersion(), kind, spec.FunctionVersion)
	case from == nil:
		return fmt.Errorf("%w %s: this worker runs no Python functions; "+
			"have it started with --code, or read on the trainer's machine", ErrUnknownOp, python)
	case f == nil || len(s.GetIn()) == 0:
		return errors.New("it says neither which function is called nor of what")
	case int(s.GetOuts()) != len(resultsOf(s)):
		return fmt.Errorf("it makes %d features, but the program counts %d", len(resultsOf(s)), s.GetOuts())
	}
	for _, slot := range s.GetIn() {
		if int(slot) >= len(slots) {
			return fmt.Errorf("%s reads slot %d, but only %d come before it", python, slot, len(slots))
		}
		if t := slots[slot]; isPicture(t) && (t.Picture.Floats || f.GetStyle() == pb.Style_ARROW) {
			return fmt.Errorf("in: functions of style %v take no %v", f.GetStyle(), t)
		}
	}
	for _, t := range resultsOf(s) {
		if spec.Width(t.Kind) == 0 && t.Kind != pb.Kind_BINARY || t.Nested > 0 && !t.List {
			return fmt.Errorf("functions make no %v", t)
		}
	}
	return nil
}

// Calls reports whether the Program has steps that call functions. Run then gets no rows but those that were chosen, in
// the file's order, and once.
func (c *Chain) Calls() bool { return len(c.calling) > 0 }

// Results are the steps' results as they were made, but for those of functions, whose memory is Kept.
func (c *Chain) Results() iter.Seq[*vector.Vector] {
	return func(yield func(*vector.Vector) bool) {
		for i := range c.steps {
			if s := &c.steps[i]; s.calls == nil && !yield(&s.out) {
				return
			}
		}
	}
}

// Close gives up what the Program's functions keep. The chain is not to be used behind it.
func (c *Chain) Close() {
	for _, at := range c.calling {
		c.steps[at].calls.function.Close()
	}
}

// keep takes memory that stays until the chain's end.
func (c *Chain) keep(bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	if c.ask.Scratch != nil {
		if err := c.ask.Scratch(bytes); err != nil {
			return err
		}
	}
	c.kept += bytes
	return nil
}

// call calls a step's function on a window, unless it was called on its rows before.
func (c *Chain) call(ctx context.Context, s *step, slots []*vector.Vector, rows int) error {
	f := s.calls
	for i, t := range f.types {
		f.out[i] = &s.out
		if i > 0 {
			f.out[i] = &s.more[i-1]
		}
		*f.out[i] = vector.Vector{Type: t}
	}
	if known, err := f.recall(s.barrier, c.rows, rows); known || err != nil {
		return err
	}
	if err := c.develop(ctx, s, slots, rows); err != nil {
		return err
	}
	if err := f.seed(c.rows, rows); err != nil {
		return err
	}
	call := Call{
		Rows: c.rows, N: rows, Session: c.ask.Session, In: s.in, Sizes: f.sizes, Seeds: f.seeds, Out: f.out,
		Room: f.room, Wait: c.ask.Wait,
	}
	if call.Wait == nil {
		call.Wait = func() error { return nil }
	}
	if c.ask.Skip != nil {
		call.Skip = c.ask.Skip()
	}
	if err := f.function.Call(ctx, &call); err != nil {
		if at, ok := errors.AsType[*RowError](err); ok && (at.Row < 0 || at.Row >= rows) {
			return fmt.Errorf("the function says of row %d, of which there are %d, that it %s", at.Row, rows, at.What)
		}
		return err
	}
	if err := f.check(s.barrier, &call); err != nil {
		return err
	}
	f.parents = call.Parents
	if call.Skip == 0 {
		return nil
	}
	return f.keep(&call)
}

// check finds what is wrong with what a function made in a call.
func (f *calling) check(b *barrier, c *Call) error {
	if err := checkFailed(c); err != nil {
		return err
	}
	rows := c.N - len(c.Failed)
	if c.Parents != nil {
		if b == nil {
			return errors.New("a function that makes a row of each says which rows they are of")
		}
		if err := b.check(c.Parents, c.N); err != nil {
			return err
		}
		rows = len(c.Parents)
	}
	for i, t := range f.types {
		if err := sound(f.out[i], t, rows); err != nil {
			return fmt.Errorf("result %s: %w", f.names[i], err)
		}
	}
	return nil
}

// seed makes the seeds for a call, if the function draws.
func (f *calling) seed(of Rows, rows int) error {
	if !f.draws {
		return nil
	}
	if rows > cap(f.seeds) {
		if err := f.room(8 * int64(rows+rows/8+64-cap(f.seeds))); err != nil { // as vector.Grow grows
			return err
		}
	}
	f.seeds = of.Seeds(f.seeds, f.place, rows)
	return nil
}

// sound checks all that a vector says of itself: it comes from another process, and who reads it would go beyond its
// slices.
func sound(v *vector.Vector, t spec.Type, rows int) error {
	if v.Type != t || v.Rows != rows {
		return fmt.Errorf("the function made %d rows of %v, not %d of %v", v.Rows, v.Type, rows, t)
	}
	if v.U32 != nil || v.Codes != nil || v.Dict != nil || v.Pictures != nil || v.Early {
		return errors.New("the function made no plain values")
	}
	n, err := rows, checkBits(v.Valid, rows)
	if err == nil && t.List {
		n, err = soundLists(v, rows)
	}
	switch {
	case err != nil:
		return err
	case t.Kind == pb.Kind_BINARY:
		return soundTexts(v, n)
	}
	have := valuesOf(v)
	if spec.Small(t.Kind) {
		have = len(v.Small) / spec.Width(t.Kind)
	}
	if have < n {
		return fmt.Errorf("the function made %d values where there should be %d", have, n)
	}
	return nil
}

// soundLists checks lists, and returns how many elements they have.
func soundLists(v *vector.Vector, rows int) (n int, err error) {
	if len(v.Nested) != int(v.Type.Nested) {
		return 0, fmt.Errorf("the function made lists of %d levels, not %d", 1+len(v.Nested), 1+v.Type.Nested)
	}
	if n, err = checkOffsets(v.Offsets, v.Valid, rows); err != nil {
		return 0, err
	}
	for _, level := range v.Nested {
		if err := checkBits(level.Valid, n); err != nil {
			return 0, err
		}
		if n, err = checkOffsets(level.Offsets, level.Valid, n); err != nil {
			return 0, err
		}
	}
	return n, checkBits(v.ElemValid, n)
}

// checkOffsets checks where n lists lie, and returns how many elements they have.
func checkOffsets(offsets []int32, valid []uint64, n int) (int, error) {
	if len(offsets) != n+1 || offsets[0] != 0 {
		return 0, fmt.Errorf("the function made %d offsets for %d lists, or such that do not start at 0",
			len(offsets), n)
	}
	for i, end := range offsets[1:] {
		if end < offsets[i] {
			return 0, fmt.Errorf("the function made list %d end at %d, before it begins", i, end)
		}
		if end > offsets[i] && valid != nil && valid[i>>6]>>(i&63)&1 == 0 {
			return 0, fmt.Errorf("the function made list %d null, with %d elements", i, end-offsets[i])
		}
	}
	return int(offsets[n]), nil
}

// soundTexts checks where n values lie.
func soundTexts(v *vector.Vector, n int) error {
	if n == 0 {
		return nil
	}
	if len(v.Ends) <= n || v.Ends[0] < 0 {
		return fmt.Errorf("the function made %d ends for %d values, or negative ones", len(v.Ends), n)
	}
	for j, end := range v.Ends[1 : n+1] {
		if end < v.Ends[j] || int(end) > len(v.Data) {
			return fmt.Errorf("the function made value %d lie from %d to %d of %d bytes",
				j, v.Ends[j], end, len(v.Data))
		}
	}
	return nil
}

// checkBits checks a bitmap of n bits, if there is one.
func checkBits(valid []uint64, n int) error {
	if valid != nil && len(valid) < vector.Words(n) {
		return errors.New("the function made a validity bitmap that is too short")
	}
	return nil
}
