package tensor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/worker/vector"
)

// sparse is a jagged feature: int64 or float32 values and int32 offsets, with float32 weights where it has
// scores. Null rows are empty, null elements are left out, and a scalar is a list of one.
type sparse struct {
	out    *pb.Output
	floats bool
	fill   uint64 // the bits of null elements, where they stay

	// Of the window:
	width int  // bytes of a value
	ones  bool // each row has one value that is not null, and one weight if it has weights
	whole vector.Vector
}

func newSparse(o *pb.Output) *sparse {
	kind := o.GetType().GetKind()
	return &sparse{out: o, floats: kind == pb.Kind_FLOAT32, fill: tensors.Bits(o.GetFill(), kind)}
}

// ids are the values. If null elements of lists stay they are like others; fillNulls says what they are.
func (s *sparse) ids(w *Window) *vector.Vector {
	v := w.Slots[s.out.GetSlots()[0]]
	if !s.out.GetNulls() || !v.Type.List || v.ElemValid == nil {
		return v
	}
	s.whole = *v
	s.whole.ElemValid = nil
	return &s.whole
}

// fillNulls writes what null elements are, where ids had them stay.
func (s *sparse) fillNulls(values []byte, w *Window, from, to int) {
	v := w.Slots[s.out.GetSlots()[0]]
	if s.ids(w) == v {
		return
	}
	var bits [8]byte
	binary.LittleEndian.PutUint64(bits[:], s.fill)
	n := 0
	for i := from; i < to; i++ {
		row := w.Source(i)
		for j := v.Offsets[row]; j < v.Offsets[row+1]; j++ {
			if !bit(v.ElemValid, int(j)) {
				copy(values[n:n+s.width], bits[:])
			}
			n += s.width
		}
	}
}

func (s *sparse) size(w *Window, from, to int) (n, spare int64) {
	perElement := int64(s.width)
	if s.out.Weights != nil {
		perElement += 4
	}
	values := upperBound(w, s.ids(w), from, to)
	n = perElement * int64(values)
	if !s.ones { // else they are counted once for all
		n += 4 * int64(to-from+1)
	}
	return n, spareOf(s.width, values)
}

func (s *sparse) see(b *Builder, w *Window) {
	v := s.ids(w)
	s.ones = v.ValueValid() == nil && ones(w, v) && (s.out.Weights == nil || ones(w, w.Slots[s.out.GetWeights()]))
	s.width = wide
	b.shares = b.shares || s.ones
	switch {
	case s.floats:
		s.width = 4
	case v.Type.Kind == pb.Kind_INT64 || v.Type.Kind == pb.Kind_INT32:
		s.width = widthOf(v, b.widths)
	}
	if s.out.GetNulls() && !s.floats {
		s.width = max(s.width, fitting(s.fill, b.widths))
	}
}

func (s *sparse) build(b *Batch, w *Window, from, to int) error {
	v := s.ids(w)
	if !v.Type.Computes() {
		return typeError(v, "numbers that ops compute with")
	}
	offsets := b.ones
	var write []int32 // nil: they stand there
	if !s.ones {
		offsets = room[int32](b, to-from+1)
		write = offsets
	}
	if s.out.Weights == nil {
		values, n, err := s.values(b, write, w, v, from, to)
		if err != nil {
			return err
		}
		s.fillNulls(values, w, from, to)
		b.addLists(to-from, offsets, write == nil)
		b.add(n, values)
		return nil
	}
	weights := w.Slots[s.out.GetWeights()]
	if err := checkWeights(w, v, weights, from, to); err != nil {
		return err
	}
	values, n, err := s.values(b, write, w, v, from, to)
	if err != nil {
		return err
	}
	scores, _, err := floats(b, write, w, weights, v, from, to)
	if err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	s.fillNulls(values, w, from, to)
	b.addLists(to-from, offsets, write == nil)
	b.add(n)
	b.add(n, values)
	b.add(n, scores)
	return nil
}

// ones reports whether each of the window's rows, chosen or not, has one value, null or not.
func ones(w *Window, v *vector.Vector) bool {
	if !v.Type.List {
		return true
	}
	offsets := v.Offsets[:w.Rows+1]
	if int(offsets[w.Rows]) != w.Rows {
		return false
	}
	counting := vector.Counting(w.Rows)
	return &offsets[0] == &counting[0] || bytes.Equal(bytesOf(offsets), bytesOf(counting))
}

// values lays out those of v that are not null.
func (s *sparse) values(
	b *Batch, offsets []int32, w *Window, v *vector.Vector, from, to int,
) (data []byte, n int, err error) {
	if s.floats {
		return floats(b, offsets, w, v, v, from, to)
	}
	if v.Type.Kind != pb.Kind_INT64 && v.Type.Kind != pb.Kind_INT32 {
		return nil, 0, typeError(v, "int32 or int64")
	}
	data, n = ints(b, s.width, offsets, w, v, from, to)
	return data, n, nil
}

// ints lays out the int32 or int64 values of v that are not null, with so many bytes each.
func ints(b *Batch, width int, offsets []int32, w *Window, v *vector.Vector, from, to int) (data []byte, n int) {
	switch {
	case v.U32 != nil:
		data, n = ofWidth(b, width, offsets, w, v.U32, v, from, to)
	case v.Type.Kind == pb.Kind_INT64:
		data, n = ofWidth(b, width, offsets, w, v.I64, v, from, to)
	default:
		data, n = ofWidth(b, width, offsets, w, v.I32, v, from, to)
	}
	b.keep(len(data))
	return data, n
}

func ofWidth[S int32 | int64 | uint32](
	b *Batch, width int, offsets []int32, w *Window, src []S, v *vector.Vector, from, to int,
) (data []byte, n int) {
	switch width {
	case 1:
		return laid(jagged[uint8](b, offsets, w, src, v, v, from, to))
	case 2:
		return laid(jagged[uint16](b, offsets, w, src, v, v, from, to))
	case 3:
		if src, ok := any(src).([]uint32); ok {
			if run, ok := run(offsets, w, src, v, v, from, to); ok {
				return packed(room[uint32](b, len(run)), run), len(run)
			}
		}
		values := jagged[uint32](b, offsets, w, src, v, v, from, to)
		return packed(values, values), len(values)
	case 4:
		return laid(jagged[uint32](b, offsets, w, src, v, v, from, to))
	}
	return laid(jagged[int64](b, offsets, w, src, v, v, from, to))
}

func laid[D number](values []D) (data []byte, n int) { return bytesOf(values), len(values) }

// floats lays out the values of v at the elements of ids that are not null.
func floats(b *Batch, offsets []int32, w *Window, v, ids *vector.Vector, from, to int) (data []byte, n int, err error) {
	var values []float32
	switch v.Type.Kind {
	case pb.Kind_FLOAT32:
		values = jagged[float32](b, offsets, w, v.F32, v, ids, from, to)
	case pb.Kind_FLOAT64:
		values = jagged[float32](b, offsets, w, v.F64, v, ids, from, to)
	default:
		return nil, 0, typeError(v, "float32 or float64")
	}
	if v != ids { // a null weight is NaN; ids that are null have gone with theirs
		nullWeights(values, w, v, ids, from, to)
	}
	data = bytesOf(values)
	b.keep(len(data))
	return data, len(values), nil
}

// run is the values of v of output rows [from, to) that are not null in `ids`, if they lie one behind the other, in
// order. It writes their offsets, unless these are nil: then each row has one value.
func run[S number](offsets []int32, w *Window, src []S, v, ids *vector.Vector, from, to int) ([]S, bool) {
	switch {
	case w.Order != nil, offsets != nil && (!v.Type.List || ids.ValueValid() != nil):
		return nil, false
	case !v.Type.List:
		return src[from:to], true
	}
	first, last := v.Offsets[from], v.Offsets[to]
	if offsets != nil {
		less(offsets, v.Offsets[from:to+1], first)
	}
	return src[first:last], true
}

// jagged lays out the values of v of output rows [from, to) that are not null in `ids`, and their offsets, as run does.
func jagged[D, S number](b *Batch, offsets []int32, w *Window, src []S, v, ids *vector.Vector, from, to int) []D {
	dst, valid := room[D](b, upperBound(w, v, from, to)), ids.ValueValid()
	if run, ok := run(offsets, w, src, v, ids, from, to); ok {
		convert(dst, run)
		return dst
	}
	switch {
	case offsets == nil:
		take(dst, w, src, from)
		return dst
	case !v.Type.List:
		return dst[:scalars(dst, offsets, w, src, valid, from)]
	case valid == nil:
		n := 0
		for i, row := range w.Order[from:to] {
			offsets[i] = int32(n)
			list := src[v.Offsets[row]:v.Offsets[row+1]]
			for j, to := 0, dst[n:n+len(list)]; j < len(list); j++ { // most are too short for copy to pay
				to[j] = D(list[j])
			}
			n += len(list)
		}
		offsets[to-from] = int32(n)
		return dst
	}
	n := 0
	for i := from; i < to; i++ {
		offsets[i-from] = int32(n)
		row := w.Source(i)
		bit := int(ids.Offsets[row])
		for j, x := range src[v.Offsets[row]:v.Offsets[row+1]] {
			dst[n] = D(x) // the next one takes the place of a null
			n += int(valid[(bit+j)>>6] >> ((bit + j) & 63) & 1)
		}
	}
	offsets[to-from] = int32(n)
	return dst[:n]
}

// less writes offsets that begin at zero.
func less(dst, src []int32, first int32) {
	if first == 0 {
		copy(dst, src)
		return
	}
	for len(src) >= 8 && len(dst) >= 8 {
		to, from := (*[8]int32)(dst), (*[8]int32)(src)
		to[0], to[1], to[2], to[3] = from[0]-first, from[1]-first, from[2]-first, from[3]-first
		to[4], to[5], to[6], to[7] = from[4]-first, from[5]-first, from[6]-first, from[7]-first
		dst, src = dst[8:], src[8:]
	}
	for i, o := range src {
		dst[i] = o - first
	}
}

// scalars lays out those of output rows from, from+1, ... that are not null, as lists of one, and returns how many they
// are.
func scalars[D, S number](dst []D, offsets []int32, w *Window, src []S, valid []uint64, from int) (n int) {
	for i := range dst {
		offsets[i] = int32(n)
		row := w.Source(from + i)
		dst[n] = D(src[row])
		n += int(valid[row>>6] >> (row & 63) & 1)
	}
	offsets[len(dst)] = int32(n)
	return n
}

func convert[D, S number](dst []D, src []S) {
	switch dst := any(dst).(type) {
	case []S:
		copy(dst, src)
		return
	case []int64:
		if narrowed(dst, src) {
			return
		}
	case []uint8:
		if narrowed(dst, src) {
			return
		}
	case []uint16:
		if narrowed(dst, src) {
			return
		}
	case []uint32:
		if narrowed(dst, src) {
			return
		}
	}
	for i, x := range src {
		dst[i] = D(x)
	}
}

// upperBound is the number of elements of rows [from, to), null ones included.
func upperBound(w *Window, v *vector.Vector, from, to int) int {
	if !v.Type.List {
		return to - from
	}
	if w.Order == nil {
		return int(v.Offsets[to] - v.Offsets[from])
	}
	n := 0
	for _, row := range w.Order[from:to] {
		n += int(v.Offsets[row+1] - v.Offsets[row])
	}
	return n
}

func checkWeights(w *Window, v, weights *vector.Vector, from, to int) error {
	if v.Type.List != weights.Type.List {
		return fmt.Errorf("the ids are %v, but their weights are %v", v.Type, weights.Type)
	}
	if !v.Type.List {
		return nil
	}
	bad := badRows{of: w}
	for i := from; i < to; i++ {
		row := w.Source(i)
		ids, scores := v.Offsets[row+1]-v.Offsets[row], weights.Offsets[row+1]-weights.Offsets[row]
		if ids != scores {
			bad.add(i, fmt.Errorf(" has %d ids and %d weights; they must be as many", ids, scores))
		}
	}
	return bad.any()
}

func nullWeights(dst []float32, w *Window, v, ids *vector.Vector, from, to int) {
	valid := v.ValueValid()
	if valid == nil {
		return
	}
	nan := float32(math.NaN())
	n := 0
	for i := from; i < to; i++ {
		row := w.Source(i)
		idFirst, first, last := row, row, row+1
		if v.Type.List {
			idFirst, first, last = int(ids.Offsets[row]), int(v.Offsets[row]), int(v.Offsets[row+1])
		}
		for j := first; j < last; j++ {
			if !bit(ids.ValueValid(), idFirst+j-first) {
				continue
			}
			if !bit(valid, j) {
				dst[n] = nan
			}
			n++
		}
	}
}
