package tensor

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// byteStrings is one byte string a row; null is empty.
type byteStrings struct{ out *pb.Output }

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
