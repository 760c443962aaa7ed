package tensor

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// shaped is [rows, ...]: rows of one shape, of scalars, lists, lists of lists or byte strings. What is null is an
// error, or the output's fill.
type shaped struct {
	out    *pb.Output
	cells  cells
	values int // of a row
}

func newShaped(o *pb.Output) *shaped {
	kind := o.GetType().GetKind()
	n := spec.Count(o.GetShape(), spec.Width(kind)) // tensors.Schema has checked it
	return &shaped{out: o, cells: newCells(kind, o.GetFill()), values: n}
}

func (s *shaped) see(b *Builder, w *Window) { s.cells.see(w.Slots[s.out.GetSlots()[0]], b.widths) }

func (s *shaped) size(_ *Window, from, to int) (n, spare int64) {
	return s.cells.size(int64(s.values) * int64(to-from))
}

func (s *shaped) build(b *Batch, w *Window, from, to int) error {
	v := w.Slots[s.out.GetSlots()[0]]
	if err := s.check(v); err != nil {
		return err
	}
	each := s.values * s.cells.width
	dst := room[byte](b, (to-from)*each)
	if !s.run(dst, w, v, from, to) {
		bad := badRows{of: w}
		for i := from; i < to; i++ {
			if err := s.row(dst[(i-from)*each:][:each], v, w.Source(i)); err != nil {
				bad.add(i, fmt.Errorf(" %w", err))
			}
		}
		if err := bad.any(); err != nil {
			return err
		}
	}
	if len(s.out.GetShape()) > 0 {
		b.add(to - from)
	}
	b.add((to-from)*s.values, s.cells.sent(b, dst))
	return nil
}

// check refuses a vector that the program's output cannot be of.
func (s *shaped) check(v *vector.Vector) error {
	levels := len(s.out.GetShape())
	switch {
	case isScalar(v, pb.Kind_BINARY):
		return nil
	case v.Type.Kind != s.cells.kind:
		return typeError(v, spec.KindName(s.cells.kind))
	case v.Type.Nested > 0 && int(v.Type.Nested)+1 != levels, v.Type.List && levels == 0, !v.Type.List && s.values != 1:
		return typeError(v, fmt.Sprintf("shape %v", s.out.GetShape()))
	}
	return nil
}

// run writes rows whose values lie one behind the other, with none missing, at once. It reports false of others.
func (s *shaped) run(dst []byte, w *Window, v *vector.Vector, from, to int) bool {
	if w.Order != nil || v.Valid != nil || v.ElemValid != nil || v.Type.Nested > 0 || v.Type.Kind == pb.Kind_BINARY {
		return false
	}
	first := from
	if v.Type.List {
		offsets := v.Offsets[from : to+1]
		first = int(offsets[0])
		for i, o := range offsets {
			if int(o)-first != i*s.values {
				return false
			}
		}
	}
	s.cells.put(dst, first, (to-from)*s.values)
	return true
}

// row writes the values of one row. The error says what is wrong with it.
func (s *shaped) row(dst []byte, v *vector.Vector, row int) error {
	switch {
	case v.Type.Kind == pb.Kind_BINARY:
		return s.raw(dst, v, row)
	case v.Type.List:
		return s.list(dst, v, 0, row)
	case v.IsNull(row):
		return s.null(dst, "is null")
	}
	s.cells.put(dst, row, 1)
	return nil
}

// list writes list number i of a level of lists within lists, the first of which are rows.
func (s *shaped) list(dst []byte, v *vector.Vector, level, i int) error {
	offsets, valid, shape := v.Offsets, v.Valid, s.out.GetShape()[level]
	if level > 0 {
		offsets, valid = v.Nested[level-1].Offsets, v.Nested[level-1].Valid
	}
	if !bit(valid, i) {
		if level == 0 {
			return s.null(dst, "is null")
		}
		return s.null(dst, "has a list that is null")
	}
	if v.Type.Nested == 0 {
		shape = int32(s.values) // in whatever shape
	}
	from, to := int(offsets[i]), int(offsets[i+1])
	if to-from != int(shape) {
		return fmt.Errorf("has %d values where shape %v takes %d", to-from, s.out.GetShape(), shape)
	}
	if level < len(v.Nested) {
		each := len(dst) / (to - from)
		for j := from; j < to; j++ {
			if err := s.list(dst[(j-from)*each:][:each], v, level+1, j); err != nil {
				return err
			}
		}
		return nil
	}
	s.cells.put(dst, from, to-from)
	if v.ElemValid == nil {
		return nil
	}
	for j := from; s.out.GetFill() == nil && j < to; j++ {
		if v.ElemIsNull(j) {
			return s.null(nil, "has a value that is null")
		}
	}
	s.cells.blankNulls(dst, from, to-from)
	return nil
}

// raw writes the values that a row's byte string is.
func (s *shaped) raw(dst []byte, v *vector.Vector, row int) error {
	if v.IsNull(row) {
		return s.null(dst, "is null")
	}
	src := value(v, row)
	if len(src) != len(dst) {
		return fmt.Errorf("has %d bytes; shape %v of %s takes %d",
			len(src), s.out.GetShape(), spec.KindName(s.cells.kind), len(dst))
	}
	copy(dst, src)
	if s.cells.kind == pb.Kind_BOOL { // so that all true ones are alike
		for i, x := range dst {
			dst[i] = min(x, 1)
		}
	}
	return nil
}

// null writes the fill, if there is one; what says where a null is.
func (s *shaped) null(dst []byte, what string) error {
	if s.out.GetFill() == nil {
		return fmt.Errorf("%s, in the file or since that lacks the column; give the tensor a default", what)
	}
	s.cells.blank(dst)
	return nil
}
