package transform

import (
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Op is one entry of a Registry. Exactly one of New and Select is set: an op either makes a feature of features, or
// chooses rows. Ops of side tables, which are built in, are the exceptions.
type Op struct {
	Name string
	// Version of the op's semantics, from 1. It is pinned in each Program: an op that gives other results for the
	// same input needs a higher one, and workers that lack a Program's version refuse it.
	Version uint32
	// Summary is what the op does, as it stands in the catalogue. Its first sentence has a line for itself in Python.
	Summary string
	// Exact is what results are, as docs/reference/ops.md has it: Markdown, for a cell of a table. Only ops that are
	// built in need it.
	Exact string
	// Fails is data that ends a stream, in words: "a row that has more scores than ids". Most ops have none.
	Fails string
	// Maps: the op is applied to each of its inputs by itself, and so always sees one. Else it takes all at once.
	Maps bool
	// Inputs and Output say which types the op takes and makes, in words: "scalar or list of numbers".
	Inputs, Output string
	// Keeps: the result's values mean what those of the first input do, as timestamps of a unit: they were chosen,
	// moved, replaced or converted, and nothing else was computed of them.
	Keeps bool
	// Pictures: Infer knows about kind PICTURE. Else such inputs are refused before it is asked.
	Pictures bool
	// Names is the parameter, if there is one, whose text is an expression that names the op's inputs. Then these are
	// its names in order, and specs have no `in`. Only expr and sample have one.
	Names  string
	Params []Param
	// Fitting is what the op may ask of the data.
	Fitting spec.Fitting
	// Out says what results are named, where an op that takes all its inputs at once may have none or several names of
	// them; empty: `out` is the name of the one result.
	Out string
	// Example is one valid line of a spec's transforms.
	Example string

	// Infer returns the result's type for inputs of the given types, or an error saying what the op would take.
	Infer func(p Params, in []spec.Type) (spec.Type, error)
	// New returns a kernel for one stream. It is called when a spec is checked, too, so that mistakes in parameters
	// show there. Infer has accepted the types.
	New func(p Params, in []spec.Type) (Kernel, error)
	// Select returns a selector for one stream.
	Select func(p Params, in []spec.Type) (Selector, error)

	builtin bool // its kernels know that nulls and memory hold anything
	// newLookup returns a kernel that looks values up in the step's table, in place of New. Such an op is in no
	// catalogue: spec.Resolve makes steps of it.
	newLookup func(p Params, in []spec.Type, t *lookup.Table) (Kernel, error)
	// resolved: spec.Resolve makes steps of other ops of it.
	resolved bool
	hidden   bool // in no catalogue: package spec makes transforms of it
}

// Kernel computes one feature of one window.
type Kernel interface {
	// Run fills out from in. Inputs have values of their type, never codes, nor 32 bits of a wider one. Where they are
	// null they hold zero: 0, false or no bytes.
	//
	// The caller has set out.Type and out.Rows, and has made out of them. A scalar is zero in each row, and null where
	// one of the inputs is. A list has the lengths and null rows of the first input that is one, and is empty if none
	// is. Its elements are zero, and null where those of a list of the same lengths are, or a scalar is. A kernel
	// writes values to out, clears bits of out.Valid and out.ElemValid for more nulls, sets bits for fewer, or assigns
	// slices of its own.
	//
	// A kernel may share slices of in with out, by assigning them, and must never change in. A steady state without
	// allocations is expected.
	//
	// Ops that are built in are handed less. Their inputs hold anything where they are null. Bitmaps, offsets and bytes
	// of out are as the last Run left them, and so are values, unless the kernel is a Borrower. Hence a slice of out
	// that such a kernel shares in some calls it does not write through in others.
	Run(out *vector.Vector, in []*vector.Vector) error
}

// Borrower is a Kernel that keeps no values from one Run to the next: the slice of values that out comes with is memory
// for them, of any length, which others had before. A step's memory goes to the next one when nobody reads it any more,
// so that a column's steps share what is in cache.
type Borrower interface {
	Kernel
	// Borrows reports whether the result's values may also be those of an input, by sharing their slice.
	Borrows() (shares bool)
}

// stateless is a Kernel that keeps nothing from one Run to the next, so that several steps may run it in turns.
type stateless interface {
	Kernel
	stateless()
}

// repeatable is a Kernel of which there can be another that shares what does not change.
type repeatable interface {
	Kernel
	again() Kernel
}

// Maker is a Kernel that makes more values than it gets, as many whatever they are.
type Maker interface {
	Kernel
	// Makes is how many values there are of so many rows. It depends on the op's parameters alone: it may be called
	// while another goroutine runs the kernel.
	Makes(rows int64) int64
}

// Sizer is a Kernel whose result may be far larger than what it is made of; how large, lengths and nulls of the inputs
// say.
type Sizer interface {
	Kernel
	// Size is how many bytes Run is going to allocate, at most, beyond what its inputs have.
	Size(in []*vector.Vector) (int64, error)
}

// Scratcher is a Kernel that works in memory of its own which grows with the longest rows of its inputs, and which it
// keeps.
type Scratcher interface {
	Kernel
	// Scratch is how many bytes it takes for such inputs, at most; 0 if they are few.
	Scratch(in []*vector.Vector) int64
}

// Tabled is a Kernel that looks values up in a table, which does not change.
type Tabled interface {
	Kernel
	// Table is how many bytes it has.
	Table() int64
}

// Selector chooses rows of one window.
type Selector interface {
	// Select clears the bits of rows to leave out: bit i%64 of sel[i/64] stands for row rows.First+i. It sets none. The
	// op's inputs may be codes.
	Select(rows Rows, in []*vector.Vector, sel []uint64)
}

// Value is what a fixed-width value of a vector may be.
type Value interface {
	bool | int32 | int64 | float32 | float64
}

// Values returns the slice of v that holds values of type T.
func Values[T Value](v *vector.Vector) *[]T {
	var slice any
	switch any(*new(T)).(type) {
	case bool:
		slice = &v.Bool
	case int32:
		slice = &v.I32
	case int64:
		slice = &v.I64
	case float32:
		slice = &v.F32
	case float64:
		slice = &v.F64
	}
	return slice.(*[]T)
}

// Elementwise makes a kernel of a loop over values: rows of scalars, elements of lists. The loop gets slices of equal
// length, and fills dst; it keeps nothing. Nulls have values, too, which are zero; they stay null, and lists keep their
// lengths.
func Elementwise[D, S Value](loop func(dst []D, src []S)) Kernel {
	return elementwise[D, S]{loop: loop}
}

type elementwise[D, S Value] struct {
	loop  func(dst []D, src []S)
	table int64 // bytes of that which loop looks values up in
}

// Table implements Tabled.
func (k elementwise[D, S]) Table() int64 { return k.table }

func (k elementwise[D, S]) Run(out *vector.Vector, in []*vector.Vector) error {
	src := (*Values[S](in[0]))[:in[0].Len()]
	dst := Values[D](out)
	*dst = vector.Grow(*dst, len(src))
	k.loop(*dst, src)
	shareShape(out, in[0])
	return nil
}

// Borrows says that results never are the inputs' values.
func (k elementwise[D, S]) Borrows() bool { return false }

func (k elementwise[D, S]) stateless() {}

// changes is an elementwise kernel of int64 ids whose loop may write where it reads.
type changes struct{ elementwise[int64, int64] }

// early is the step for whoever makes the input.
func (k changes) early(spec.Type) vector.Early { return vector.Early{Change: k.loop} }

// shareShape gives out the nulls and list lengths of in.
func shareShape(out, in *vector.Vector) {
	out.Valid, out.Offsets, out.ElemValid = in.Valid, in.Offsets, in.ElemValid
}

// setValueValid replaces the validity of the values: of a list's elements, or a scalar's rows.
func setValueValid(v *vector.Vector, valid []uint64) {
	if v.Type.List {
		v.ElemValid = valid
	} else {
		v.Valid = valid
	}
}

// copyValid writes the first n bits of from, all set if it is nil, to memory of its own.
func copyValid(to, from []uint64, n int) []uint64 {
	to = vector.Grow(to, vector.Words(n))
	if from != nil {
		copy(to, from)
		return to
	}
	for i := range to {
		to[i] = ^uint64(0)
	}
	return to
}
