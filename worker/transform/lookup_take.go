package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// taker is the kernel of lookupColumn.
type taker interface {
	Kernel
	pieces(of []*vector.Vector)
}

// newTaker returns the kernel for a column of a type. Its error is about the default.
func newTaker(t spec.Type, p Params) (taker, error) {
	value := p.Value("default")
	if t.List {
		value = nil // lists are null where there is no row
	}
	bad := fmt.Errorf("default: want a value for a column of %v, found %s", spec.Type{Kind: t.Kind}, show(value))
	switch t.Kind {
	case pb.Kind_BOOL:
		b, ok := value.GetKind().(*pb.Value_Bool)
		if value != nil && !ok {
			return nil, bad
		}
		return newValues(t, value != nil, ok && b.Bool), nil
	case pb.Kind_INT32, pb.Kind_INT64:
		n, ok := integer(value)
		if value != nil && (!ok || t.Kind == pb.Kind_INT32 && n != int64(int32(n))) {
			return nil, bad
		}
		if t.Kind == pb.Kind_INT32 {
			return newValues(t, value != nil, int32(n)), nil
		}
		return newValues(t, value != nil, n), nil
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		x, ok := spec.Number(value)
		if value != nil && (!ok || t.Kind == pb.Kind_FLOAT32 && overflows(x)) {
			return nil, bad
		}
		if t.Kind == pb.Kind_FLOAT32 {
			return newValues(t, value != nil, float32(x)), nil
		}
		return newValues(t, value != nil, x), nil
	}
	text, ok := value.GetKind().(*pb.Value_Text)
	if value != nil && !ok {
		return nil, bad
	}
	k := &takeTexts{shape: shape{has: value != nil}, list: t.List}
	if ok {
		k.otherwise = text.Text
	}
	return k, nil
}

func newValues[T Value](t spec.Type, has bool, otherwise T) taker {
	if t.List {
		return &takeLists[T]{}
	}
	return &takeValues[T]{shape: shape{has: has}, otherwise: otherwise}
}

// shape is what takers make beside values, in memory of their own.
type shape struct {
	has  bool             // rows that there are not have a value
	of   []*vector.Vector // the column's pieces
	null bool             // some of these have nulls

	valid, elemValid []uint64
	offsets          []int32
}

func (s *shape) pieces(of []*vector.Vector) {
	s.of = of
	for _, v := range of {
		s.null = s.null || v.Valid != nil
	}
}

// nulls makes the validity of values that are taken of rows: null where these are, where there is none, and where the
// column is.
func (s *shape) nulls(out, rows *vector.Vector) {
	shareShape(out, rows)
	n := rows.Len()
	valid := copyValid(s.valid, rows.ValueValid(), n)
	s.valid = valid
	some := false
	for i, row := range rows.I32[:n] {
		if row == lookup.Absent {
			if !s.has {
				clearBit(valid, i)
				some = true
			}
		} else if s.null {
			if piece, at := lookup.Place(row); s.of[piece].IsNull(int(at)) {
				clearBit(valid, i)
				some = true
			}
		}
	}
	switch {
	case some && rows.Type.List:
		out.ElemValid = valid
	case some:
		out.Valid = valid
	}
}

// each calls f for each row that is there and not null, with where its elements lie.
func (s *shape) each(rows *vector.Vector, f func(v *vector.Vector, first, last int)) {
	for i, row := range rows.I32[:rows.Rows] {
		if row == lookup.Absent || rows.IsNull(i) {
			continue
		}
		piece, at := lookup.Place(row)
		if v := s.of[piece]; !v.IsNull(int(at)) {
			f(v, int(v.Offsets[at]), int(v.Offsets[at+1]))
		}
	}
}

// elements is how many those of all rows are, and how many bytes texts among them have.
func (s *shape) elements(rows *vector.Vector) (n, bytes int64) {
	s.each(rows, func(v *vector.Vector, first, last int) {
		n += int64(last - first)
		if v.Ends != nil {
			bytes += int64(v.Ends[last] - v.Ends[first])
		}
	})
	return n, bytes
}

// lists makes the lengths of a result of lists, and which of their elements are null.
func (s *shape) lists(out, rows *vector.Vector, elements int64) error {
	if elements > math.MaxInt32 {
		return fmt.Errorf("the lists of a window of %d rows have more than 2^31 elements", rows.Rows)
	}
	s.nulls(out, rows)
	s.offsets = vector.Grow(s.offsets, rows.Rows+1)
	out.Offsets, out.ElemValid = s.offsets, nil
	offset, null := int32(0), false
	for i, row := range rows.I32[:rows.Rows] {
		s.offsets[i] = offset
		if row == lookup.Absent || out.IsNull(i) {
			continue
		}
		piece, at := lookup.Place(row)
		v := s.of[piece]
		offset += v.Offsets[at+1] - v.Offsets[at]
		null = null || v.ElemValid != nil
	}
	s.offsets[rows.Rows] = offset
	if !null {
		return nil
	}
	s.elemValid = copyValid(s.elemValid, nil, int(offset))
	to := 0
	s.each(rows, func(v *vector.Vector, first, last int) {
		for j := first; j < last; j, to = j+1, to+1 {
			if v.ElemIsNull(j) {
				clearBit(s.elemValid, to)
			}
		}
	})
	out.ElemValid = s.elemValid
	return nil
}

// takeValues takes values of one width of scalars.
type takeValues[T Value] struct {
	shape
	values    [][]T // of the pieces
	otherwise T
}

func (k *takeValues[T]) pieces(of []*vector.Vector) {
	k.shape.pieces(of)
	for _, v := range of {
		k.values = append(k.values, *Values[T](v))
	}
}

func (k *takeValues[T]) again() Kernel {
	return &takeValues[T]{
		shape: shape{has: k.has, of: k.of, null: k.null}, values: k.values, otherwise: k.otherwise,
	}
}

// Borrows says that results never are the inputs' values.
func (k *takeValues[T]) Borrows() bool { return false }

func (k *takeValues[T]) Run(out *vector.Vector, in []*vector.Vector) error {
	rows, dst := in[0], Values[T](out)
	*dst = vector.Grow(*dst, rows.Len())
	takeRows(*dst, k.values, rows.I32, k.otherwise)
	k.nulls(out, rows)
	return nil
}

func takeRows[T Value](dst []T, pieces [][]T, rows []int32, otherwise T) {
	rows = rows[:len(dst)]
	for i, row := range rows {
		if row == lookup.Absent {
			dst[i] = otherwise
			continue
		}
		piece, at := lookup.Place(row)
		dst[i] = pieces[piece][at]
	}
}

// takeLists takes lists of such values.
type takeLists[T Value] struct{ shape }

func (k *takeLists[T]) again() Kernel { return &takeLists[T]{shape{of: k.of, null: k.null}} }

// Size implements Sizer.
func (k *takeLists[T]) Size(in []*vector.Vector) (int64, error) {
	n, _ := k.elements(in[0])
	bytes := 5*int64(in[0].Rows) + 9*n + 64
	return bytes + bytes/8, nil // vector.Grow leaves room
}

func (k *takeLists[T]) Run(out *vector.Vector, in []*vector.Vector) error {
	rows, dst := in[0], Values[T](out)
	n, _ := k.elements(rows)
	if err := k.lists(out, rows, n); err != nil {
		return err
	}
	to := vector.Grow(*dst, int(n))
	*dst = to
	k.each(rows, func(v *vector.Vector, first, last int) {
		to = to[copy(to, (*Values[T](v))[first:last]):]
	})
	return nil
}

// takeTexts takes texts, or lists of texts.
type takeTexts struct {
	shape
	list      bool
	otherwise string
	data      []byte
	ends      []int32
}

func (k *takeTexts) again() Kernel {
	return &takeTexts{shape: shape{has: k.has, of: k.of, null: k.null}, list: k.list, otherwise: k.otherwise}
}

// Size implements Sizer.
func (k *takeTexts) Size(in []*vector.Vector) (int64, error) {
	n, bytes := k.measure(in[0])
	bytes += 5*n + 5*int64(in[0].Len()) + 64
	return bytes + bytes/8, nil // vector.Grow leaves room
}

// measure is how many texts there are, and how many bytes they have.
func (k *takeTexts) measure(rows *vector.Vector) (n, bytes int64) {
	if k.list {
		return k.elements(rows)
	}
	n = int64(rows.Len())
	for _, row := range rows.I32[:n] {
		if row == lookup.Absent {
			bytes += int64(len(k.otherwise))
			continue
		}
		piece, at := lookup.Place(row)
		bytes += int64(k.of[piece].Ends[at+1] - k.of[piece].Ends[at])
	}
	return n, bytes
}

func (k *takeTexts) Run(out *vector.Vector, in []*vector.Vector) error {
	rows := in[0]
	n, bytes := k.measure(rows)
	if bytes > math.MaxInt32 {
		return fmt.Errorf("the texts of a window of %d rows are over 2 GiB", rows.Rows)
	}
	k.data, k.ends = vector.Grow(k.data, int(bytes))[:0], vector.Grow(k.ends, int(n)+1)[:1]
	k.ends[0] = 0
	if k.list {
		if err := k.lists(out, rows, n); err != nil {
			return err
		}
		k.each(rows, k.add)
	} else {
		for _, row := range rows.I32[:n] {
			if row == lookup.Absent {
				k.data = append(k.data, k.otherwise...)
				k.ends = append(k.ends, int32(len(k.data)))
				continue
			}
			piece, at := lookup.Place(row)
			k.add(k.of[piece], int(at), int(at)+1)
		}
		k.nulls(out, rows)
	}
	out.Data, out.Ends = k.data, k.ends
	return nil
}

// add adds texts of a piece.
func (k *takeTexts) add(v *vector.Vector, first, last int) {
	base := int32(len(k.data)) - v.Ends[first]
	k.data = append(k.data, v.Data[v.Ends[first]:v.Ends[last]]...)
	for _, end := range v.Ends[first+1 : last+1] {
		k.ends = append(k.ends, base+end)
	}
}
