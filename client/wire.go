package client

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/wire"
)

// wireRecord is a received record batch whose columns were checked and are ready to be copied from.
type wireRecord struct {
	columns []wireColumn
	rows    int
	worker  string // who sent it
	bytes   int64  // memory that it keeps

	batch *wire.Batch  // whose memory it is
	users atomic.Int32 // who receives it, the queue, and copies that are made of it
}

func (w *wireRecord) retain() { w.users.Add(1) }

// release gives the memory back when the last user has called it.
func (w *wireRecord) release() {
	if w.users.Add(-1) == 0 {
		w.batch.Release()
	}
}

// wireColumn holds the values of one column; which slice is in use follows from column.elem.
type wireColumn struct {
	f32     []float32
	f64     []float64
	i32     []int32 // or the lengths of padded rows
	i64     []int64
	u8      []byte // images, byte strings, tensors, the bits of booleans, or int64 values in fewer bytes
	each    int    // of these: how many
	offsets []int32
	ends    []int32 // of the byte strings in lists, which the offsets count
	weights []float32
}

// parts walks over a batch's arrays and their buffers.
type parts struct {
	nodes   []wire.Node
	buffers [][]byte
	good    []int32 // the offsets that were looked at last, which arrays may share
}

// length is that of the next array.
func (p *parts) length() int {
	if len(p.nodes) == 0 {
		return 0
	}
	return int(p.nodes[0].Length)
}

// next returns the buffers of the next array after its validity, of which it has `buffers` in all. It checks that the
// array has at least n values, and no nulls: tensors have none.
func (p *parts) next(n, buffers int) ([][]byte, error) {
	if len(p.nodes) == 0 || len(p.buffers) < buffers {
		return nil, errors.New("the batch ends before it")
	}
	node, bufs := p.nodes[0], p.buffers[1:buffers]
	p.nodes, p.buffers = p.nodes[1:], p.buffers[buffers:]
	switch {
	case node.Length < int64(n):
		return nil, fmt.Errorf("%d values; expected %d", node.Length, n)
	case node.Nulls != 0:
		return nil, fmt.Errorf("%d nulls; tensors have none", node.Nulls)
	}
	return bufs, nil
}

// bind checks that a batch fits the layout and that all its offsets lie inside its buffers, so that copying rows
// from it cannot fail. The record has the batch's memory, until it is released.
func (l *layout) bind(b *wire.Batch) (*wireRecord, error) {
	w := &wireRecord{columns: make([]wireColumn, len(l.columns)), rows: int(b.Rows), bytes: b.Bytes, batch: b}
	p := &parts{nodes: b.Nodes, buffers: b.Buffers}
	for i := range l.columns {
		if err := w.columns[i].bind(&l.columns[i], p, w.rows); err != nil {
			return nil, fmt.Errorf("record: column %q: %w", l.columns[i].name, err)
		}
	}
	if len(p.nodes) > 0 || len(p.buffers) > 0 {
		return nil, fmt.Errorf("record: has more arrays than the schema's %d columns", len(l.columns))
	}
	w.users.Store(1)
	return w, nil
}

func (w *wireColumn) bind(c *column, p *parts, rows int) error {
	switch c.role {
	case roleDense, roleImage:
		return w.bindRows(c, p, rows)
	case roleTensor:
		return w.bindTensor(c, p, rows)
	case rolePadded:
		return w.bindPadded(c, p, rows)
	case roleSparse:
		return w.bindSparse(c, p, rows)
	case roleBytes:
		return w.bindBytes(c, p, rows)
	}
	return w.bindValues(c, p, rows)
}

// bindRows takes rows of equally many values.
func (w *wireColumn) bindRows(c *column, p *parts, rows int) error {
	if _, err := p.next(rows, 1); err != nil {
		return err
	}
	return w.bindValues(c, p, rows*c.width/c.bytes)
}

// bindTensor takes rows of a shape, which may be that of scalars.
func (w *wireColumn) bindTensor(c *column, p *parts, rows int) error {
	bind := w.bindRows
	if len(c.shape) == 0 {
		bind = w.bindValues
	}
	if err := bind(c, p, rows); err != nil || c.dtype != "bool" {
		return err
	}
	for _, b := range w.u8[:rows*c.width] {
		if b > 1 { // Go, and others, take a bool's byte for 0 or 1
			return fmt.Errorf("a bool is %d; expected 0 or 1", b)
		}
	}
	return nil
}

func (w *wireColumn) bindPadded(c *column, p *parts, rows int) error {
	if _, err := p.next(rows, 1); err != nil {
		return err
	}
	if err := w.bindTensor(c, p, rows); err != nil {
		return err
	}
	b, err := p.next(rows, 2)
	if err != nil {
		return err
	}
	w.i32 = arrow.Int32Traits.CastFromBytes(b[0])
	if err := enough(len(w.i32), rows); err != nil {
		return fmt.Errorf("lengths: %w", err)
	}
	for _, n := range w.i32[:rows] {
		if n < 0 || int(n) > c.shape[0] {
			return fmt.Errorf("a row has %d values; expected 0 to %d", n, c.shape[0])
		}
	}
	return nil
}

func (w *wireColumn) bindSparse(c *column, p *parts, rows int) error {
	b, err := p.next(rows, 2)
	if err != nil {
		return err
	}
	n := 0
	if w.offsets, n, err = p.offsets(b[0], rows); err != nil {
		return err
	}
	if !c.weighted {
		return w.bindValues(c, p, n)
	}
	if _, err := p.next(n, 1); err != nil {
		return err
	}
	if err := w.bindValues(c, p, n); err != nil {
		return err
	}
	if b, err = p.next(n, 2); err != nil {
		return err
	}
	w.weights = arrow.Float32Traits.CastFromBytes(b[0])
	return enough(len(w.weights), n)
}

func (w *wireColumn) bindBytes(c *column, p *parts, rows int) (err error) {
	n := rows // byte strings
	if c.lists {
		b, err := p.next(rows, 2)
		if err != nil {
			return err
		}
		if w.offsets, n, err = p.offsets(b[0], rows); err != nil {
			return err
		}
	}
	b, err := p.next(n, 3)
	if err != nil {
		return err
	}
	ends, size, err := p.offsets(b[0], n)
	if err != nil {
		return err
	}
	if w.ends = ends; !c.lists {
		w.offsets, w.ends = ends, nil
	}
	w.u8 = b[1]
	return enough(len(w.u8), size)
}

// offsets takes those of n rows, or byte strings, and returns how many values they need.
func (p *parts) offsets(b []byte, n int) (offsets []int32, values int, err error) {
	if n == 0 {
		return []int32{0}, 0, nil
	}
	offsets = arrow.Int32Traits.CastFromBytes(b)
	if err := enough(len(offsets), n+1); err != nil {
		return nil, 0, fmt.Errorf("offsets: %w", err)
	}
	offsets = offsets[:n+1]
	if len(p.good) == len(offsets) && &p.good[0] == &offsets[0] {
		return offsets, int(offsets[n]), nil
	}
	last := offsets[0]
	if last < 0 {
		return nil, 0, fmt.Errorf("offsets begin at %d", last)
	}
	for i, o := range offsets {
		if o < last {
			return nil, 0, fmt.Errorf("offset %d is %d, after %d", i, o, last)
		}
		last = o
	}
	p.good = offsets
	return offsets, int(last), nil
}

func (w *wireColumn) bindValues(c *column, p *parts, n int) error {
	all := p.length()
	bufs, err := p.next(n, 2)
	if err != nil {
		return err
	}
	b := bufs[0]
	switch c.elem {
	case arrow.FLOAT32:
		w.f32 = arrow.Float32Traits.CastFromBytes(b)
		return enough(len(w.f32), n)
	case arrow.FLOAT64:
		w.f64 = arrow.Float64Traits.CastFromBytes(b)
		return enough(len(w.f64), n)
	case arrow.INT32:
		w.i32 = arrow.Int32Traits.CastFromBytes(b)
		return enough(len(w.i32), n)
	case arrow.INT64:
		return w.bindInts(b, all)
	case arrow.BOOL:
		w.u8 = b
		return enough(len(b)*8, n)
	default: // UINT8
		w.u8 = b
		return enough(len(b)/c.bytes, n)
	}
}

// bindInts takes the n values of an int64 array: as Arrow has them, or narrow ones.
func (w *wireColumn) bindInts(b []byte, n int) error {
	if len(b) >= 8*n {
		w.i64 = arrow.Int64Traits.CastFromBytes(b)
		return nil
	}
	for _, each := range [...]int{1, 2, 3, 4} {
		if len(b) == each*n {
			w.u8, w.each = b, each
			return nil
		}
	}
	return fmt.Errorf("%d bytes for %d values; expected 1, 2, 3, 4 or 8 for each", len(b), n)
}

func enough(got, n int) error {
	if got < n {
		return fmt.Errorf("buffer holds %d values; expected %d", got, n)
	}
	return nil
}
