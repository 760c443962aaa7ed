package tensor

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// byteStrings is one byte string a row; null is empty.
type byteStrings struct{ out *pb.Output }

func (b *byteStrings) field() arrow.Field {
	return arrow.Field{Name: b.out.GetName(), Type: arrow.BinaryTypes.Binary, Metadata: metadata(pb.Layout_BYTES)}
}

func (b *byteStrings) size(w *Window, from, to int) int64 {
	v := w.Slots[b.out.GetSlots()[0]]
	n := 4 * int64(to-from)
	if !isScalar(v, pb.Kind_BINARY) {
		return n // build says what is wrong
	}
	if w.Order == nil {
		return n + int64(v.Ends[to]-v.Ends[from])
	}
	for _, row := range w.Order[from:to] {
		n += int64(v.Ends[row+1] - v.Ends[row])
	}
	return n
}

func (b *byteStrings) build(out *Batch, mem *scratch, w *Window, from, to int) error {
	v := w.Slots[b.out.GetSlots()[0]]
	if !isScalar(v, pb.Kind_BINARY) {
		return typeError(v, "binary")
	}
	total := 0
	for i := from; i < to; i++ {
		total += len(value(v, w.Source(i)))
	}
	mem.values = vector.Grow(mem.values, total)
	mem.offsets = vector.Grow(mem.offsets, to-from+1)
	n := 0
	for i := from; i < to; i++ {
		mem.offsets[i-from] = int32(n)
		n += copy(mem.values[n:], value(v, w.Source(i)))
	}
	mem.offsets[to-from] = int32(n)
	out.add(to-from, bytesOf(mem.offsets), mem.values)
	return nil
}

func value(v *vector.Vector, row int) []byte {
	if v.IsNull(row) {
		return nil
	}
	return v.Data[v.Ends[row]:v.Ends[row+1]]
}

// image is raw uint8 pixels [rows, H, W, C]; each value has exactly H*W*C bytes, and null is all zeros.
type image struct {
	out   *pb.Output
	typ   arrow.DataType
	bytes int // of one
}

func newImage(o *pb.Output) (*image, error) {
	size := int64(1)
	for _, d := range o.GetShape() {
		size *= int64(d)
		if d <= 0 || size > math.MaxInt32 {
			return nil, fmt.Errorf("shape %v", o.GetShape())
		}
	}
	if len(o.GetShape()) != 3 {
		return nil, fmt.Errorf("shape %v; want [H, W, C]", o.GetShape())
	}
	typ := arrow.FixedSizeListOfNonNullable(int32(size), arrow.PrimitiveTypes.Uint8)
	return &image{out: o, typ: typ, bytes: int(size)}, nil
}

func (im *image) field() arrow.Field {
	return arrow.Field{
		Name:     im.out.GetName(),
		Type:     im.typ,
		Metadata: metadataWith(pb.Layout_IMAGE, metaShape, joinInts(im.out.GetShape())),
	}
}

func (im *image) size(_ *Window, from, to int) int64 { return int64(im.bytes) * int64(to-from) }

func (im *image) build(b *Batch, mem *scratch, w *Window, from, to int) error {
	v := w.Slots[im.out.GetSlots()[0]]
	if !isScalar(v, pb.Kind_BINARY) {
		return typeError(v, "binary")
	}
	mem.values = vector.Grow(mem.values, (to-from)*im.bytes)
	for i := from; i < to; i++ {
		row := w.Source(i)
		dst := mem.values[(i-from)*im.bytes:][:im.bytes]
		if v.IsNull(row) {
			clear(dst)
			continue
		}
		src := value(v, row)
		if len(src) != im.bytes {
			return fmt.Errorf("%s row %d has %d bytes; shape %v takes %d",
				w.File.GetUri(), w.FirstRow+int64(row), len(src), im.out.GetShape(), im.bytes)
		}
		copy(dst, src)
	}
	b.add(to - from)
	b.add(len(mem.values), mem.values)
	return nil
}
