package client

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/wire"
)

// buffers is the memory of one batch, filled by append and reused after Release.
type buffers struct {
	layout  *layout
	columns []outColumn
	rows    int
	valid   int // of them, once all are there; the rest is padding
	total   int // rows that it will have
	memory  *allocator

	sparse []Sparse
	labels []Label
	bytes  []Bytes
	images []Image
	shaped []Tensor
	padded []Padded
}

// outColumn is a wireColumn's counterpart in a batch.
type outColumn struct {
	memory  *allocator
	f32     []float32
	f64     []float64
	i32     []int32 // or the lengths of padded rows
	i64     []int64
	u8      []byte
	bools   []bool
	weights []float32
	offsets []int32 // in own, unless shares
	ends    []int32 // of the byte strings in lists, which the offsets count
	own     []int32 // for the offsets of all rows
	shares  bool    // the offsets may be those of the jagged column before
}

// roomAtOnce is how many bytes a column gets before as many are there: a batch may be larger than all of the dataset.
const roomAtOnce = 64 << 20

// newBuffers has room for rows rows of the columns of fixed width, unless that is much; jagged ones grow to what they
// need. All of it is aligned, as copies to accelerators like it.
func newBuffers(l *layout, rows int, m *allocator) *buffers {
	b := &buffers{layout: l, total: rows, memory: m, columns: make([]outColumn, len(l.columns))}
	for i := range l.columns {
		c, o := &l.columns[i], &b.columns[i]
		o.memory = m
		n := rows * c.width
		if n == 0 {
			o.own = allocate[int32](m, rows+1)
			continue
		}
		switch c.elem {
		case arrow.FLOAT32:
			o.f32 = room[float32](m, n)
		case arrow.FLOAT64:
			o.f64 = room[float64](m, n)
		case arrow.INT32:
			o.i32 = room[int32](m, n)
		case arrow.INT64:
			o.i64 = room[int64](m, n)
		case arrow.BOOL:
			o.bools = room[bool](m, n)
		default:
			o.u8 = room[byte](m, n)
		}
		if c.role == rolePadded {
			o.i32 = room[int32](m, rows)
		}
	}
	b.reset()
	return b
}

// room is for values of a column that is expected to have so many.
func room[T wire.Value](m *allocator, expected int) []T {
	var zero T
	return allocate[T](m, min(expected, roomAtOnce/int(unsafe.Sizeof(zero))))[:0]
}

// allocator takes memory of what Config.Memory returned; nil: of Go's heap.
type allocator struct {
	of  BatchMemory
	err error // why some of the memory is of Go's heap all the same
}

// allocate returns n values, which may be any.
func allocate[T wire.Value](m *allocator, n int) []T {
	var zero T
	if m == nil || n == 0 {
		return wire.Aligned[T](n)
	}
	taken, err := m.of.Take(n * int(unsafe.Sizeof(zero)))
	if err != nil {
		m.err = err
		return wire.Aligned[T](n)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(taken))), n)
}

// misplaced is why some of the buffers' memory is not where it should be.
func (b *buffers) misplaced() error {
	if b.memory == nil {
		return nil
	}
	return b.memory.err
}

// reset empties the buffers and keeps their memory.
func (b *buffers) reset() {
	b.rows = 0
	for i := range b.columns {
		o := &b.columns[i]
		o.f32, o.f64, o.i32, o.i64 = o.f32[:0], o.f64[:0], o.i32[:0], o.i64[:0]
		o.u8, o.bools, o.weights = o.u8[:0], o.bools[:0], o.weights[:0]
		if o.own != nil {
			o.own[0] = 0 // whatever the memory has
			o.offsets, o.shares = o.own[:1], true
		}
		if b.layout.columns[i].lists {
			o.ends = append(reserve(o.memory, o.ends[:0], 1, 0), 0)
		}
	}
	b.sparse, b.labels, b.bytes, b.images = b.sparse[:0], b.labels[:0], b.bytes[:0], b.images[:0]
	b.shaped, b.padded = b.shaped[:0], b.padded[:0]
}

// append copies rows lo to hi of a record: the one copy between wire and training loop.
func (b *buffers) append(w *wireRecord, lo, hi int) error {
	share := float64(b.total) / float64(max(1, b.rows+hi-lo))
	past := w.bytes*int64(b.total) >= pastCaches*int64(w.rows)
	before := -1 // the jagged column before
	for i := range b.columns {
		c, from, to := &b.layout.columns[i], &w.columns[i], &b.columns[i]
		if c.width > 0 {
			to.appendFixed(c, from, lo, hi, b.total, past)
			continue
		}
		if err := b.appendOffsets(w, i, before, lo, hi); err != nil {
			return fmt.Errorf("batch: column %q: %w", c.name, err)
		}
		if err := to.appendJagged(c, from, lo, hi, share, past); err != nil {
			return fmt.Errorf("batch: column %q: %w", c.name, err)
		}
		before = i
	}
	b.rows += hi - lo
	return nil
}

// appendOffsets appends the offsets of uneven rows of column i, unless it has had the same as the one before in all
// records.
func (b *buffers) appendOffsets(w *wireRecord, i, before, lo, hi int) error {
	o, offsets := &b.columns[i], w.columns[i].offsets
	if o.shares && before >= 0 {
		if unsafe.SliceData(offsets) == unsafe.SliceData(w.columns[before].offsets) {
			o.offsets = b.columns[before].offsets
			return nil
		}
		copy(o.own, b.columns[before].offsets[:b.rows+1])
	}
	o.shares = false
	begin, end := offsets[lo], o.own[b.rows]
	if err := fits(end, offsets[hi]-begin); err != nil {
		return err
	}
	o.offsets = o.own[:b.rows+1+hi-lo]
	shifted(o.offsets[b.rows+1:], offsets[lo+1:hi+1], end-begin)
	return nil
}

// shifted writes offsets that begin elsewhere.
func shifted(dst, src []int32, by int32) {
	for len(src) >= 8 && len(dst) >= 8 {
		to, from := (*[8]int32)(dst), (*[8]int32)(src)
		to[0], to[1], to[2], to[3] = from[0]+by, from[1]+by, from[2]+by, from[3]+by
		to[4], to[5], to[6], to[7] = from[4]+by, from[5]+by, from[6]+by, from[7]+by
		dst, src = dst[8:], src[8:]
	}
	for i, v := range src {
		dst[i] = v + by
	}
}

// fits fails where there are more values in a batch than offsets can count.
func fits(have, more int32) error {
	if int64(have)+int64(more) > math.MaxInt32 {
		return fmt.Errorf("more than %d values in one batch; lower batch_size", math.MaxInt32)
	}
	return nil
}

// appendFixed appends rows of a column that will have so many.
func (o *outColumn) appendFixed(c *column, w *wireColumn, lo, hi, rows int, past bool) {
	from, to, total := lo*c.width, hi*c.width, rows*c.width
	switch c.elem {
	case arrow.FLOAT32:
		o.f32 = extend(o.memory, o.f32, w.f32[from:to], total, past)
	case arrow.FLOAT64:
		o.f64 = extend(o.memory, o.f64, w.f64[from:to], total, past)
	case arrow.INT32:
		o.i32 = extend(o.memory, o.i32, w.i32[from:to], total, past)
	case arrow.INT64:
		o.i64 = w.appendInts(reserve(o.memory, o.i64, to-from, total), from, to, past)
	case arrow.BOOL:
		o.bools = appendBits(reserve(o.memory, o.bools, to-from, total), w.u8, from, to)
	default:
		o.u8 = extend(o.memory, o.u8, w.u8[from:to], total, past)
	}
	if c.role == rolePadded {
		o.i32 = extend(o.memory, o.i32, w.i32[lo:hi], rows, past)
	}
}

// appendBits appends the bits from .. to.
func appendBits(dst []bool, bits []byte, from, to int) []bool {
	for ; from < to && from&7 != 0; from++ {
		dst = append(dst, bits[from>>3]>>(from&7)&1 == 1)
	}
	if whole := (to - from) &^ 7; whole > 0 {
		n := len(dst)
		dst = slices.Grow(dst, whole)[:n+whole]
		out := unsafe.Slice((*byte)(unsafe.Pointer(&dst[n])), whole) // true is 1
		for i, b := range bits[from>>3 : (from+whole)>>3] {
			// A copy of the byte in each byte of a word, of which byte k keeps bit k, as 1.
			x := uint64(b) * 0x0101010101010101 & 0x8040201008040201
			binary.LittleEndian.PutUint64(out[8*i:], (x+0x7f7f7f7f7f7f7f7f)>>7&0x0101010101010101)
		}
		from += whole
	}
	for ; from < to; from++ {
		dst = append(dst, bits[from>>3]>>(from&7)&1 == 1)
	}
	return dst
}

// extend appends values to a column that is expected to have so many.
func extend[T wire.Value](m *allocator, dst, values []T, expected int, past bool) []T {
	n := len(dst)
	dst = reserve(m, dst, len(values), expected)[:n+len(values)]
	put(dst[n:], values, past)
	return dst
}

// reserve makes room for n values more. Where a column must grow, it does to what is expected of it, so that few values
// are copied again, or doubles where that is much.
func reserve[T wire.Value](m *allocator, dst []T, n, expected int) []T {
	if n += len(dst); n <= cap(dst) {
		return dst
	}
	var zero T
	expected = min(expected, max(roomAtOnce/int(unsafe.Sizeof(zero)), 2*cap(dst)))
	grown := allocate[T](m, max(n, expected, cap(dst)+cap(dst)/4))
	return grown[:copy(grown, dst)]
}

// likely is how many values a jagged column will have if the rows to come are like those that came, which are one in
// share.
func likely(values int, share float64) int {
	return int(min(share*float64(values)*17/16, math.MaxInt32))
}

// appendJagged appends the values of uneven rows; share is how many times as many rows the batch will have.
func (o *outColumn) appendJagged(c *column, w *wireColumn, lo, hi int, share float64, past bool) error {
	from, to := w.offsets[lo], w.offsets[hi]
	more := int(to - from)
	switch {
	case c.lists:
		return o.appendStrings(w, int(from), int(to), share, past)
	case c.role == roleBytes:
		o.u8 = extend(o.memory, o.u8, w.u8[from:to], likely(len(o.u8)+more, share), past)
	case c.elem == arrow.INT64:
		o.i64 = w.appendInts(reserve(o.memory, o.i64, more, likely(len(o.i64)+more, share)), int(from), int(to), past)
	default:
		o.f32 = extend(o.memory, o.f32, w.f32[from:to], likely(len(o.f32)+more, share), past)
	}
	if c.weighted {
		o.weights = extend(o.memory, o.weights, w.weights[from:to], likely(len(o.weights)+more, share), past)
	}
	return nil
}

// appendStrings appends byte strings of lists.
func (o *outColumn) appendStrings(w *wireColumn, from, to int, share float64, past bool) error {
	begin, end, have := w.ends[from], w.ends[to], o.ends[len(o.ends)-1]
	if err := fits(have, end-begin); err != nil {
		return err
	}
	n := len(o.ends)
	o.ends = reserve(o.memory, o.ends, to-from, likely(n+to-from, share))[:n+to-from]
	shifted(o.ends[n:], w.ends[from+1:to+1], have-begin)
	o.u8 = extend(o.memory, o.u8, w.u8[begin:end], likely(int(have+end-begin), share), past)
	return nil
}

// size is the number of bytes in use.
func (b *buffers) size() int64 {
	var n int64
	for i := range b.columns {
		o := &b.columns[i]
		n += int64(4*(len(o.f32)+len(o.i32)+len(o.offsets)+len(o.ends)+len(o.weights)) + 8*(len(o.f64)+len(o.i64)) +
			len(o.u8) + len(o.bools))
	}
	return n
}

// pad appends rows of zeros, empty lists, what padded rows are filled with, and provenance -1.
func (b *buffers) pad(rows int) {
	for i := range b.columns {
		c, o := &b.layout.columns[i], &b.columns[i]
		switch n := rows * c.width; {
		case c.width == 0:
			// Where they are those of another column, both write the same to the same place.
			o.offsets = appendCopies(o.memory, o.offsets, o.offsets[len(o.offsets)-1], rows)
		case c.role == roleFile, c.role == rolePart:
			o.i32 = appendCopies(o.memory, o.i32, -1, n)
		case c.role == roleRow:
			o.i64 = appendCopies(o.memory, o.i64, -1, n)
		case c.role == rolePadded:
			o.fill(c, n)
			o.i32 = appendCopies(o.memory, o.i32, 0, rows)
		default:
			o.zeros(c.elem, n)
		}
	}
	b.rows += rows
}

func (o *outColumn) zeros(elem arrow.Type, n int) {
	switch elem {
	case arrow.FLOAT32:
		o.f32 = appendCopies(o.memory, o.f32, 0, n)
	case arrow.FLOAT64:
		o.f64 = appendCopies(o.memory, o.f64, 0, n)
	case arrow.INT32:
		o.i32 = appendCopies(o.memory, o.i32, 0, n)
	case arrow.INT64:
		o.i64 = appendCopies(o.memory, o.i64, 0, n)
	case arrow.BOOL:
		o.bools = appendCopies(o.memory, o.bools, false, n)
	default:
		o.u8 = appendCopies(o.memory, o.u8, 0, n)
	}
}

// fill appends n values, or bytes of some, of what padded rows are filled with.
func (o *outColumn) fill(c *column, n int) {
	if c.elem == arrow.INT64 {
		o.i64 = appendCopies(o.memory, o.i64, int64(binary.LittleEndian.Uint64(c.fill)), n)
		return
	}
	have := len(o.u8)
	o.u8 = reserve(o.memory, o.u8, n, 0)[:have+n]
	for i := have; i < len(o.u8); i += len(c.fill) {
		copy(o.u8[i:], c.fill)
	}
}

// appendCopies appends n copies of a value.
func appendCopies[T wire.Value](m *allocator, dst []T, value T, n int) []T {
	have := len(dst)
	dst = reserve(m, dst, n, 0)[:have+n]
	for i := range dst[have:] {
		dst[have+i] = value
	}
	return dst
}
