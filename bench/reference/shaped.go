package reference

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// columnAt is the column that a slot holds as the files have it. Results of ops are none.
func (r *resolver) columnAt(slot int) column {
	for _, s := range r.sources {
		if s.slot == slot {
			return s.column
		}
	}
	return column{}
}

// ownKind is a slot's kind as tensors have it.
func (r *resolver) ownKind(slot int) pb.Kind {
	if own := r.columnAt(slot).own; own != pb.Kind_KIND_UNSPECIFIED {
		return own
	}
	return r.types[slot].Kind
}

// tensor completes an output of layout tensor.
func (r *resolver) tensor(o *output, f *pb.Feature, slot int) error {
	t := r.types[slot]
	o.field.Kind = r.ownKind(slot)
	given := f.GetDtype()
	switch {
	case t.Kind == pb.Kind_BINARY && (t.List || spec.Width(given) == 0):
		return fmt.Errorf("%v of dtype %v", t, given)
	case t.Kind == pb.Kind_BINARY:
		o.field.Kind = given
	case given != pb.Kind_KIND_UNSPECIFIED && given != o.field.Kind:
		return fmt.Errorf("dtype %v of a column of %v", given, o.field.Kind)
	}
	o.field.Shape = f.GetShape()
	if len(o.field.Shape) == 0 {
		o.field.Shape = r.columnAt(slot).shape
	}
	switch dims := len(o.field.Shape); {
	case slices.ContainsFunc(o.field.Shape, func(d int32) bool { return d <= 0 }):
		return fmt.Errorf("shape %v", o.field.Shape)
	case !t.List && t.Kind != pb.Kind_BINARY && size(o.field.Shape) != 1:
		return fmt.Errorf("shape %v of scalars", o.field.Shape)
	case (t.List || t.Kind == pb.Kind_BINARY) && dims == 0:
		return fmt.Errorf("%v without a shape", t)
	case t.Nested > 0 && dims != int(t.Nested)+1:
		return fmt.Errorf("shape %v of %v", o.field.Shape, t)
	}
	return o.setFill(f.GetDefault())
}

// padded completes an output of layout padded.
func (r *resolver) padded(o *output, f *pb.Feature, slot int) error {
	if t := r.types[slot]; t.Kind == pb.Kind_BINARY || f.GetLength() <= 0 {
		return fmt.Errorf("%v of length %d", t, f.GetLength())
	}
	o.field.Kind, o.field.Shape = r.ownKind(slot), []int32{f.GetLength()}
	o.field.Left = f.GetSide() != pb.Side_RIGHT
	o.first, o.keep = f.GetTruncate() == pb.Truncate_FIRST, f.GetNulls() != pb.Nulls_OMIT
	v := f.GetValue()
	if v.GetKind() == nil {
		v = zero(o.field.Kind)
	}
	if err := o.setFill(v); err != nil {
		return err
	}
	o.field.Value = shownValue(o.fill, o.field.Kind)
	return nil
}

// setFill sets the value that stands for nulls.
func (o *output) setFill(v *pb.Value) (err error) {
	if v.GetKind() != nil {
		o.fill, err = constant(v, spec.Type{Kind: o.field.Kind})
	}
	return err
}

func zero(k pb.Kind) *pb.Value {
	if k == pb.Kind_BOOL {
		return &pb.Value{Kind: &pb.Value_Bool{}}
	}
	return &pb.Value{Kind: &pb.Value_Int{}}
}

// shownValue is a number or bool in the one way of writing it.
func shownValue(c *cell, k pb.Kind) string {
	switch {
	case k == pb.Kind_BOOL:
		return strconv.FormatBool(c.ints[0] != 0)
	case holdingOf(k) == storedInts:
		return strconv.FormatInt(c.ints[0], 10)
	}
	return strconv.FormatFloat(c.floats[0], 'g', -1, 64)
}

// size is the number of values of a shape.
func size(shape []int32) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

// shaping makes one row of a tensor.
type shaping struct {
	o    *output
	in   *cell
	out  cell
	dims []int32
	at   []int // of in.inner, how many lists of each level were taken
	// how many values were taken
	taken int
}

// tensor adds one row of a tensor to its hash.
func (r *reading) tensor(o output, c *cell, t spec.Type) error {
	s := shaping{o: &o, in: c, dims: o.field.Shape, at: make([]int, t.Nested)}
	if t.Nested == 0 {
		s.dims = []int32{int32(size(o.field.Shape))}
	}
	var err error
	switch {
	case c.null:
		err = s.list(0, -1)
	case t.Kind == pb.Kind_BINARY:
		err = s.raw()
	case t.Nested > 0:
		err = s.list(0, len(c.inner[0]))
	default:
		err = s.list(0, c.count(t.Kind))
	}
	if err != nil {
		return err
	}
	r.hasher.Values(&s.out, o.field.Kind)
	return nil
}

func (s *shaping) raw() error {
	want := size(s.dims) * spec.Width(s.o.field.Kind)
	if n := len(s.in.texts[0]); n != want {
		return fmt.Errorf("%d bytes; shape %v of %v takes %d", n, s.o.field.Shape, s.o.field.Kind, want)
	}
	s.out.appendRaw(s.in.texts[0], s.o.field.Kind)
	return nil
}

// list takes a list of n elements, each a value at the last level; it is null if n is below 0.
func (s *shaping) list(level, n int) error {
	switch want := int(s.dims[level]); {
	case n < 0:
		return s.null(size(s.dims[level:]))
	case n != want:
		return fmt.Errorf("%d values at level %d; shape %v takes %d", n, level, s.o.field.Shape, want)
	}
	for range n {
		if level+1 == len(s.dims) {
			if err := s.value(); err != nil {
				return err
			}
			continue
		}
		below := s.in.inner[level][s.at[level]]
		s.at[level]++
		if err := s.list(level+1, below); err != nil {
			return err
		}
	}
	return nil
}

// value takes the row's next value.
func (s *shaping) value() error {
	j := s.taken
	s.taken++
	if s.in.isGone(j) {
		return s.null(1)
	}
	s.out.appendFrom(s.in, j, s.o.field.Kind)
	return nil
}

// null adds what stands for n values that are not there.
func (s *shaping) null(n int) error {
	if s.o.fill == nil {
		return errors.New("null; filter such rows, or declare a default")
	}
	for range n {
		s.out.appendFrom(s.o.fill, 0, s.o.field.Kind)
	}
	return nil
}

// padded adds one row of a padded tensor to its hash.
func (r *reading) padded(o output, c *cell) {
	var values cell
	k, length := o.field.Kind, size(o.field.Shape)
	for j := range c.count(k) {
		switch {
		case !c.isGone(j):
			values.appendFrom(c, j, k)
		case o.keep:
			values.appendFrom(o.fill, 0, k)
		}
	}
	from, to := 0, values.count(k)
	if to > length && o.first {
		to = length
	}
	from = max(from, to-length)
	r.hasher.Len(to - from)
	var row cell
	pad := func() {
		for range length - (to - from) {
			row.appendFrom(o.fill, 0, k)
		}
	}
	if o.field.Left {
		pad()
	}
	for j := from; j < to; j++ {
		row.appendFrom(&values, j, k)
	}
	if !o.field.Left {
		pad()
	}
	r.hasher.Values(&row, k)
}
