package client

import (
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Record shows the batch as an Arrow record in the wire's tensor layout. It lies on the batch's memory (only bool
// labels are copied, to bits), so it is valid until Release of the batch. After that Record returns nil.
func (b *Batch) Record() arrow.Record {
	buf := b.buffers
	if buf == nil {
		return nil
	}
	columns := make([]arrow.Array, len(buf.columns))
	for i := range columns {
		f := buf.layout.schema.Field(i)
		data := buf.columns[i].data(&buf.layout.columns[i], f.Type, b.Rows)
		columns[i] = array.MakeFromData(data)
		data.Release()
		defer columns[i].Release()
	}
	return array.NewRecord(buf.layout.schema, columns, int64(b.Rows))
}

// data lays Arrow's structures over a column.
func (o *outColumn) data(c *column, t arrow.DataType, rows int) arrow.ArrayData {
	switch c.role {
	case roleDense, roleImage, roleTensor:
		return o.rows(c, t, rows)
	case rolePadded:
		s := t.(*arrow.StructType)
		lengths := flat(s.Field(1).Type, rows, arrow.Int32Traits.CastToBytes(o.i32))
		return nest(t, rows, nil, o.rows(c, s.Field(0).Type, rows), lengths)
	case roleBytes:
		offsets := bufferOf(arrow.Int32Traits.CastToBytes(o.offsets))
		if c.lists {
			return nest(t, rows, []*memory.Buffer{offsets}, o.strings(t.(*arrow.ListType).Elem(), o.ends))
		}
		return o.strings(t, o.offsets)
	case roleSparse:
		elem, n := t.(*arrow.ListType).Elem(), int(o.offsets[rows])
		var child arrow.ArrayData
		if s, ok := elem.(*arrow.StructType); ok {
			weights := flat(s.Field(1).Type, n, arrow.Float32Traits.CastToBytes(o.weights))
			child = nest(elem, n, nil, o.values(c, s.Field(0).Type, n), weights)
		} else {
			child = o.values(c, elem, n)
		}
		return nest(t, rows, []*memory.Buffer{bufferOf(arrow.Int32Traits.CastToBytes(o.offsets))}, child)
	}
	return o.values(c, t, rows)
}

// strings lays byte strings over the column's bytes.
func (o *outColumn) strings(t arrow.DataType, ends []int32) arrow.ArrayData {
	buffers := []*memory.Buffer{nil, bufferOf(arrow.Int32Traits.CastToBytes(ends)), bufferOf(o.u8)}
	return array.NewData(t, len(ends)-1, buffers, nil, 0, 0)
}

// rows lays lists of equally many values over the slice in use, or scalars.
func (o *outColumn) rows(c *column, t arrow.DataType, rows int) arrow.ArrayData {
	if list, ok := t.(*arrow.FixedSizeListType); ok {
		return nest(t, rows, nil, o.values(c, list.Elem(), rows*c.width/c.bytes))
	}
	return o.values(c, t, rows)
}

// values lays an array of n values over the slice in use.
func (o *outColumn) values(c *column, t arrow.DataType, n int) arrow.ArrayData {
	if c.elem != arrow.BOOL {
		return flat(t, n, o.raw(c))
	}
	bits := make([]byte, (n+7)/8)
	for i, v := range o.bools {
		if v {
			bits[i>>3] |= 1 << (i & 7)
		}
	}
	return flat(t, n, bits)
}

// raw is the slice in use for values, as bytes.
func (o *outColumn) raw(c *column) []byte {
	switch c.elem {
	case arrow.FLOAT32:
		return arrow.Float32Traits.CastToBytes(o.f32)
	case arrow.FLOAT64:
		return arrow.Float64Traits.CastToBytes(o.f64)
	case arrow.INT32:
		return arrow.Int32Traits.CastToBytes(o.i32)
	case arrow.INT64:
		return arrow.Int64Traits.CastToBytes(o.i64)
	case arrow.BOOL:
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(o.bools))), len(o.bools))
	default: // UINT8, whatever the bytes are
		return o.u8
	}
}

func bufferOf(b []byte) *memory.Buffer { return memory.NewBufferBytes(b) }

func flat(t arrow.DataType, n int, values []byte) arrow.ArrayData {
	return array.NewData(t, n, []*memory.Buffer{nil, bufferOf(values)}, nil, 0, 0)
}

// nest makes an array of n rows over its children, without nulls.
func nest(t arrow.DataType, n int, buffers []*memory.Buffer, children ...arrow.ArrayData) arrow.ArrayData {
	data := array.NewData(t, n, append([]*memory.Buffer{nil}, buffers...), children, 0, 0)
	for _, c := range children {
		c.Release()
	}
	return data
}

// Arrays are the batch's memory: of each column, in the order of Schema, what it has of offsets, values and weights, or
// of values and lengths; of lists of byte strings, offsets of rows, offsets of strings, and bytes. Bools are bytes.
// They are good until Release.
func (b *Batch) Arrays() [][]byte {
	var out [][]byte
	for i := range b.buffers.columns {
		c, o := &b.buffers.layout.columns[i], &b.buffers.columns[i]
		if c.width == 0 {
			out = append(out, arrow.Int32Traits.CastToBytes(o.offsets))
		}
		if c.lists {
			out = append(out, arrow.Int32Traits.CastToBytes(o.ends))
		}
		out = append(out, o.raw(c))
		if c.weighted {
			out = append(out, arrow.Float32Traits.CastToBytes(o.weights))
		}
		if c.role == rolePadded {
			out = append(out, arrow.Int32Traits.CastToBytes(o.i32))
		}
	}
	return out
}

// Schema is that of the batch's Record.
func (b *Batch) Schema() *arrow.Schema { return b.buffers.layout.schema }
