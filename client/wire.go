package client

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
)

// wireRecord is a received record batch whose columns were checked and are ready to be copied from.
type wireRecord struct {
	layout  *layout
	columns []wireColumn
	rows    int
	worker  string // who sent it
	bytes   int64  // memory that it keeps
}

// wireColumn holds the values of one column; which slice is in use follows from column.elem.
type wireColumn struct {
	f32     []float32
	f64     []float64
	i32     []int32
	i64     []int64
	u8      []byte // images, byte strings, or the bits of booleans
	offsets []int32
	weights []float32
}

// bind checks that a record fits the layout and that all its offsets lie inside its buffers, so that copying rows
// from it cannot fail. The record's memory must come from the garbage-collected allocator.
func (l *layout) bind(rec arrow.Record) (*wireRecord, error) {
	if int(rec.NumCols()) != len(l.columns) {
		return nil, fmt.Errorf("record has %d columns; expected %d", rec.NumCols(), len(l.columns))
	}
	w := &wireRecord{layout: l, columns: make([]wireColumn, len(l.columns)), rows: int(rec.NumRows())}
	for i := range l.columns {
		data := rec.Column(i).Data()
		w.bytes += memoryOf(data)
		if err := w.columns[i].bind(&l.columns[i], data, w.rows); err != nil {
			return nil, fmt.Errorf("record: column %q: %w", l.columns[i].name, err)
		}
	}
	return w, nil
}

func (w *wireColumn) bind(c *column, data arrow.ArrayData, rows int) error {
	if err := plain(data, rows); err != nil {
		return err
	}
	switch c.role {
	case roleDense, roleImage:
		return w.bindValues(c.elem, data.Children()[0], rows*c.width)
	case roleSparse:
		return w.bindSparse(c, data, rows)
	case roleBytes:
		n, err := w.bindOffsets(data, rows)
		if err != nil {
			return err
		}
		w.u8 = bytesOf(data, 2)
		return enough(len(w.u8), n)
	}
	return w.bindValues(c.elem, data, rows)
}

func (w *wireColumn) bindSparse(c *column, data arrow.ArrayData, rows int) error {
	n, err := w.bindOffsets(data, rows)
	if err != nil {
		return err
	}
	values := data.Children()[0]
	if c.weighted {
		if err := plain(values, n); err != nil {
			return err
		}
		weights := values.Children()[1]
		if err := plain(weights, n); err != nil {
			return err
		}
		w.weights = arrow.Float32Traits.CastFromBytes(bytesOf(weights, 1))
		if err := enough(len(w.weights), n); err != nil {
			return err
		}
		values = values.Children()[0]
	}
	return w.bindValues(c.elem, values, n)
}

// bindOffsets takes the offsets of rows and returns how many values they need.
func (w *wireColumn) bindOffsets(data arrow.ArrayData, rows int) (int, error) {
	if rows == 0 {
		w.offsets = []int32{0}
		return 0, nil
	}
	offsets := arrow.Int32Traits.CastFromBytes(bytesOf(data, 1))
	if err := enough(len(offsets), rows+1); err != nil {
		return 0, fmt.Errorf("offsets: %w", err)
	}
	w.offsets = offsets[:rows+1]
	last := w.offsets[0]
	if last < 0 {
		return 0, fmt.Errorf("offsets begin at %d", last)
	}
	for i, o := range w.offsets {
		if o < last {
			return 0, fmt.Errorf("offset %d is %d, after %d", i, o, last)
		}
		last = o
	}
	return int(last), nil
}

func (w *wireColumn) bindValues(elem arrow.Type, data arrow.ArrayData, n int) error {
	if err := plain(data, n); err != nil {
		return err
	}
	b := bytesOf(data, 1)
	switch elem {
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
		w.i64 = arrow.Int64Traits.CastFromBytes(b)
		return enough(len(w.i64), n)
	case arrow.BOOL:
		w.u8 = b
		return enough(len(b)*8, n)
	default: // UINT8
		w.u8 = b
		return enough(len(b), n)
	}
}

// plain checks that data has at least n values, no nulls and no offset: what comes out of an IPC stream of tensors.
func plain(data arrow.ArrayData, n int) error {
	switch {
	case data.Len() < n:
		return fmt.Errorf("%d values; expected %d", data.Len(), n)
	case data.NullN() != 0:
		return fmt.Errorf("%d nulls; tensors have none", data.NullN())
	case data.Offset() != 0:
		return fmt.Errorf("starts at %d; expected 0", data.Offset())
	}
	return nil
}

func enough(got, n int) error {
	if got < n {
		return fmt.Errorf("buffer holds %d values; expected %d", got, n)
	}
	return nil
}

func bytesOf(data arrow.ArrayData, i int) []byte {
	if bufs := data.Buffers(); i < len(bufs) && bufs[i] != nil {
		return bufs[i].Bytes()
	}
	return nil
}

func memoryOf(data arrow.ArrayData) int64 {
	var n int64
	for _, b := range data.Buffers() {
		if b != nil {
			n += int64(max(b.Cap(), b.Len()))
		}
	}
	for _, c := range data.Children() {
		n += memoryOf(c)
	}
	return n
}
