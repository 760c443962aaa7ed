package tensor

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// byteStrings is one byte string a row; null is empty.
type byteStrings struct{ out *pb.Output }

func (b *byteStrings) size(w *Window, from, to int) (n, spare int64) {
	v := w.Slots[b.out.GetSlots()[0]]
	n = 4 * int64(to-from+1)
	if !isScalar(v, pb.Kind_BINARY) {
		return n, 0 // build says what is wrong
	}
	if w.Order == nil {
		return n + int64(v.Ends[to]-v.Ends[from]), 0
	}
	for _, row := range w.Order[from:to] {
		n += int64(v.Ends[row+1] - v.Ends[row])
	}
	return n, 0
}

func (b *byteStrings) build(out *Batch, w *Window, from, to int) error {
	v := w.Slots[b.out.GetSlots()[0]]
	if !isScalar(v, pb.Kind_BINARY) {
		return typeError(v, "binary")
	}
	total := 0
	for i := from; i < to; i++ {
		total += len(value(v, w.Source(i)))
	}
	offsets, values := room[int32](out, to-from+1), room[byte](out, total)
	n := 0
	for i := from; i < to; i++ {
		offsets[i-from] = int32(n)
		n += copy(values[n:], value(v, w.Source(i)))
	}
	offsets[to-from] = int32(n)
	out.add(to-from, bytesOf(offsets), values)
	return nil
}

func value(v *vector.Vector, row int) []byte {
	if v.IsNull(row) {
		return nil
	}
	return v.Data[v.Ends[row]:v.Ends[row+1]]
}
