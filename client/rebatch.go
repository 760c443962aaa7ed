package client

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

// maxFree bounds the released buffers that a session keeps: one being filled, one in the training loop, and a
// reader ahead of it.
const maxFree = 4

// buffers is the memory of one batch, filled by append and reused after Release.
type buffers struct {
	layout  *layout
	columns []outColumn
	rows    int

	sparse []Sparse
	labels []Label
	bytes  []Bytes
	images []Image
}

// outColumn is a wireColumn's counterpart in a batch.
type outColumn struct {
	f32     []float32
	f64     []float64
	i32     []int32
	i64     []int64
	u8      []byte
	bools   []bool
	offsets []int32
	weights []float32
}

// newBuffers has room for rows rows of the columns of fixed width; jagged ones grow to what they need.
func newBuffers(l *layout, rows int) *buffers {
	b := &buffers{layout: l, columns: make([]outColumn, len(l.columns))}
	for i := range l.columns {
		c, o := &l.columns[i], &b.columns[i]
		if c.width == 0 {
			o.offsets = make([]int32, 1, rows+1)
			continue
		}
		n := rows * c.width
		switch c.elem {
		case arrow.FLOAT32:
			o.f32 = make([]float32, 0, n)
		case arrow.FLOAT64:
			o.f64 = make([]float64, 0, n)
		case arrow.INT32:
			o.i32 = make([]int32, 0, n)
		case arrow.INT64:
			o.i64 = make([]int64, 0, n)
		case arrow.BOOL:
			o.bools = make([]bool, 0, n)
		default:
			o.u8 = make([]byte, 0, n)
		}
	}
	return b
}

// reset empties the buffers and keeps their memory.
func (b *buffers) reset() {
	b.rows = 0
	for i := range b.columns {
		o := &b.columns[i]
		o.f32, o.f64, o.i32, o.i64 = o.f32[:0], o.f64[:0], o.i32[:0], o.i64[:0]
		o.u8, o.bools, o.weights = o.u8[:0], o.bools[:0], o.weights[:0]
		if o.offsets != nil {
			o.offsets = o.offsets[:1]
		}
	}
	b.sparse, b.labels, b.bytes, b.images = b.sparse[:0], b.labels[:0], b.bytes[:0], b.images[:0]
}

// append copies rows lo to hi of a record: the one copy between wire and training loop.
func (b *buffers) append(w *wireRecord, lo, hi int) error {
	for i := range b.columns {
		c, from, to := &b.layout.columns[i], &w.columns[i], &b.columns[i]
		if c.width > 0 {
			to.appendFixed(c, from, lo, hi)
		} else if err := to.appendJagged(c, from, lo, hi); err != nil {
			return fmt.Errorf("batch: column %q: %w", c.name, err)
		}
	}
	b.rows += hi - lo
	return nil
}

func (o *outColumn) appendFixed(c *column, w *wireColumn, lo, hi int) {
	from, to := lo*c.width, hi*c.width
	switch c.elem {
	case arrow.FLOAT32:
		o.f32 = append(o.f32, w.f32[from:to]...)
	case arrow.FLOAT64:
		o.f64 = append(o.f64, w.f64[from:to]...)
	case arrow.INT32:
		o.i32 = append(o.i32, w.i32[from:to]...)
	case arrow.INT64:
		o.i64 = append(o.i64, w.i64[from:to]...)
	case arrow.BOOL:
		for i := from; i < to; i++ {
			o.bools = append(o.bools, w.u8[i>>3]>>(i&7)&1 == 1)
		}
	default:
		o.u8 = append(o.u8, w.u8[from:to]...)
	}
}

func (o *outColumn) appendJagged(c *column, w *wireColumn, lo, hi int) error {
	from, to := w.offsets[lo], w.offsets[hi]
	end := o.offsets[len(o.offsets)-1]
	if int64(end)+int64(to-from) > math.MaxInt32 {
		return fmt.Errorf("more than %d values in one batch; lower batch_size", math.MaxInt32)
	}
	n := len(o.offsets)
	o.offsets = slices.Grow(o.offsets, hi-lo)[:n+hi-lo]
	shift, out := end-from, o.offsets[n:]
	for i, v := range w.offsets[lo+1 : hi+1] {
		out[i] = v + shift
	}
	switch {
	case c.role == roleBytes:
		o.u8 = append(o.u8, w.u8[from:to]...)
	case c.elem == arrow.INT64:
		o.i64 = append(o.i64, w.i64[from:to]...)
	default:
		o.f32 = append(o.f32, w.f32[from:to]...)
	}
	if c.weighted {
		o.weights = append(o.weights, w.weights[from:to]...)
	}
	return nil
}

// size is the number of bytes in use.
func (b *buffers) size() int64 {
	var n int64
	for i := range b.columns {
		o := &b.columns[i]
		n += int64(4*(len(o.f32)+len(o.i32)+len(o.offsets)+len(o.weights)) + 8*(len(o.f64)+len(o.i64)) + len(o.u8) + len(o.bools))
	}
	return n
}
