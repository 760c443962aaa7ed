package python

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// result is the memory of one result, used again from call to call.
type result struct {
	typ    spec.Type
	levels []level // of lists
	valid  []uint64
	bools  []bool
	i32    []int32
	i64    []int64
	f32    []float32
	f64    []float64
	ends   []int32
	bytes  []byte // of byte strings, or of small kinds
}

type level struct {
	valid   []uint64
	offsets []int32
}

// errPlaces says that a process did not lay out its results as it has to.
var errPlaces = errors.New("the results do not lie as they should")

// reader takes results from a segment that a process writes to, and may write to meanwhile: what is relied on is copied
// first. places are the process's word.
type reader struct {
	from   []byte
	places []int64
	err    error
	more   int64 // bytes that the results' memory has to grow by
}

// next is the next buffer, nil if it is an absent bitmap.
func (r *reader) next() []byte {
	at, size := r.places[0], r.places[1]
	r.places = r.places[2:]
	if at < 0 && size == 0 {
		return nil
	}
	if at < 0 || at%align != 0 || size < 0 || size > int64(len(r.from)) || at > int64(len(r.from))-size {
		r.fail("a buffer of %d bytes at %d of %d", size, at, len(r.from))
		return nil
	}
	return r.from[at : at+size : at+size]
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errPlaces, fmt.Sprintf(format, args...))
	}
}

// exactly is the next buffer, which must be there and have so many bytes.
func (r *reader) exactly(size int) []byte {
	b := r.next()
	if r.err == nil && len(b) != size {
		r.fail("a buffer of %d bytes where there should be %d", len(b), size)
	}
	if r.err != nil {
		return nil
	}
	return b
}

// bits copies a bitmap of n bits; nil if it is absent.
func (r *reader) bits(to *[]uint64, n int) []uint64 {
	if r.err != nil || r.places[0] < 0 && r.places[1] == 0 {
		r.places = r.places[2:]
		return nil
	}
	from := r.exactly((n + 7) / 8)
	if r.err != nil {
		return nil
	}
	*to = vector.Grow(*to, vector.Words(n))
	if n > 0 {
		(*to)[len(*to)-1] = 0
	}
	copy(bytesOf(*to), from)
	return *to
}

// rising copies the offsets of n lists or byte strings, which begin at 0 and never fall.
func (r *reader) rising(to *[]int32, n int) []int32 {
	from := r.exactly(4 * (n + 1))
	if r.err != nil {
		return nil
	}
	out := vector.Grow(*to, n+1)
	*to = out
	copy(bytesOf(out), from)
	last := int32(0)
	for i, at := range out {
		if at < last || i == 0 && at != 0 {
			r.fail("offset %d is %d, behind %d", i, at, last)
			return nil
		}
		last = at
	}
	return out
}

// copied copies n values that lie as they do in the result.
func copied[T any](r *reader, to *[]T, n int) []T {
	from := r.exactly(int(unsafe.Sizeof(*new(T))) * n)
	if r.err != nil {
		return nil
	}
	*to = vector.Grow(*to, n)
	copy(bytesOf(*to), from)
	return *to
}

// grow adds up by how much the memory of a result grows, if its places are in order.
func (m *result) grow(r *reader) {
	p := r.places
	size := func() int64 { n := max(0, p[1]); p = p[2:]; return n }
	for i := range levels(m.typ) {
		if i == len(m.levels) {
			m.levels = append(m.levels, level{})
		}
		l := &m.levels[i]
		more(r, l.valid, (size()+7)/8)
		more(r, l.offsets, size()/4)
	}
	more(r, m.valid, (size()+7)/8)
	switch m.typ.Kind {
	case pb.Kind_BOOL:
		more(r, m.bools, 8*size())
	case pb.Kind_INT32:
		more(r, m.i32, size()/4)
	case pb.Kind_INT64:
		more(r, m.i64, size()/8)
	case pb.Kind_FLOAT32:
		more(r, m.f32, size()/4)
	case pb.Kind_FLOAT64:
		more(r, m.f64, size()/8)
	case pb.Kind_BINARY:
		more(r, m.ends, size()/4)
		more(r, m.bytes, size())
	default:
		more(r, m.bytes, size())
	}
	r.places = p
}

// more counts what a slice grows by to have n values, as vector.Grow does it.
func more[T any](r *reader, s []T, n int64) {
	if n > int64(cap(s)) {
		r.more += int64(unsafe.Sizeof(*new(T))) * (n + n/8 + 64 - int64(cap(s)))
	}
}

// read makes a vector of so many rows of a result.
func (m *result) read(r *reader, v *vector.Vector, rows int) {
	*v = vector.Vector{Type: m.typ, Rows: rows, Nested: v.Nested[:0]}
	n := rows
	var above *level
	for i := range levels(m.typ) {
		l := &m.levels[i]
		lists := level{r.bits(&l.valid, n), r.rising(&l.offsets, n)}
		if r.err != nil {
			return
		}
		if r.empty(&lists, n); above == nil {
			v.Valid, v.Offsets = lists.valid, lists.offsets
		} else {
			v.Nested = append(v.Nested, vector.Level{Valid: lists.valid, Offsets: lists.offsets})
		}
		above, n = &lists, int(lists.offsets[n])
	}
	valid := r.bits(&m.valid, n)
	if m.typ.List {
		v.ElemValid = valid
	} else {
		v.Valid = valid
	}
	m.values(r, v, n)
}

// empty checks that null lists have nothing.
func (r *reader) empty(l *level, n int) {
	if l.valid == nil {
		return
	}
	for i := range n {
		if l.valid[i>>6]>>(i&63)&1 == 0 && l.offsets[i] != l.offsets[i+1] {
			r.fail("the null list %d has %d elements", i, l.offsets[i+1]-l.offsets[i])
			return
		}
	}
}

// values takes n values.
func (m *result) values(r *reader, v *vector.Vector, n int) {
	switch m.typ.Kind {
	case pb.Kind_BOOL:
		from := r.exactly((n + 7) / 8)
		if r.err != nil {
			return
		}
		m.bools = vector.Grow(m.bools, n)
		for i := range m.bools {
			m.bools[i] = from[i>>3]>>(i&7)&1 != 0
		}
		v.Bool = m.bools
	case pb.Kind_INT32:
		v.I32 = copied(r, &m.i32, n)
	case pb.Kind_INT64:
		v.I64 = copied(r, &m.i64, n)
	case pb.Kind_FLOAT32:
		v.F32 = copied(r, &m.f32, n)
	case pb.Kind_FLOAT64:
		v.F64 = copied(r, &m.f64, n)
	case pb.Kind_BINARY:
		if v.Ends = r.rising(&m.ends, n); v.Ends != nil {
			v.Data = copied(r, &m.bytes, int(v.Ends[n]))
		}
	default:
		v.Small = copied(r, &m.bytes, spec.Width(m.typ.Kind)*n)
	}
}

// parents are the rows that results are of, where a function does not make one of each.
type parents struct {
	kind pb.FunctionKind
	most int64 // rows that become of one, on average
	rows []int32
}

// claimed checks that buffers have no more bytes in all than the segment: none lies in another.
func claimed(places []int64, from []byte) error {
	left := int64(len(from))
	for i := 1; i < len(places); i += 2 {
		if left -= max(0, places[i]); left < 0 || places[i] > int64(len(from)) {
			return fmt.Errorf("%w: buffers have more than %d bytes", errPlaces, len(from))
		}
	}
	return nil
}

// take takes the parents of so many results, of a call of n rows, and returns them with the places behind theirs.
func (p *parents) take(n, results int, from []byte, places []int64, allow func(bytes int64) error) (
	[]int32, []int64, error,
) {
	if p.kind == pb.FunctionKind_MAP {
		return nil, places, nil
	}
	most := int64(n)
	if p.kind == pb.FunctionKind_FLAT_MAP {
		most = min(most*p.most, math.MaxInt32)
	}
	if results < 0 || int64(results) > most || len(places) < 2 {
		return nil, nil, fmt.Errorf("%w: %d rows of %d, with %d places", errPlaces, results, n, len(places))
	}
	if places[1] != 4*int64(results) {
		return nil, nil, fmt.Errorf("%w: %d bytes for the parents of %d rows", errPlaces, places[1], results)
	}
	if err := claimed(places[:2], from); err != nil {
		return nil, nil, err
	}
	r := reader{from: from, places: places}
	more(&r, p.rows, int64(results))
	if r.more > 0 && allow != nil {
		if err := allow(r.more); err != nil {
			return nil, nil, err
		}
	}
	rows := copied(&r, &p.rows, results)
	before := int32(0)
	for i, row := range rows {
		if row < before || int(row) >= n || p.kind == pb.FunctionKind_FILTER && i > 0 && row == before {
			r.fail("row %d is of row %d of %d, behind one of row %d", i, row, n, before)
			break
		}
		before = row
	}
	if rows == nil {
		rows = []int32{} // not as many as there were
	}
	return rows, r.places, r.err
}

// take makes vectors of so many rows of all results. allow is asked before they take more memory than before.
func take(
	results []result, out []*vector.Vector, rows int, from []byte, places []int64, allow func(bytes int64) error,
) error {
	want := 0
	for i := range results {
		want += 2 * buffers(results[i].typ)
	}
	if len(places) != want {
		return fmt.Errorf("%w: %d places where there should be %d", errPlaces, len(places), want)
	}
	if err := claimed(places, from); err != nil {
		return err
	}
	r := reader{from: from, places: places}
	for i := range results {
		results[i].grow(&r)
	}
	if r.more > 0 && allow != nil {
		if err := allow(r.more); err != nil {
			return err
		}
	}
	r.places = places
	for i := range results {
		if results[i].read(&r, out[i], rows); r.err != nil {
			return fmt.Errorf("result %d: %w", i, r.err)
		}
	}
	return nil
}
