package tensor

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// byteLists is a list of byte strings a row: a null row is an empty list, a null element an empty byte string.
type byteLists struct{ out *pb.Output }

func (b *byteLists) vector(w *Window) (v *vector.Vector, ok bool) {
	v = w.Slots[b.out.GetSlots()[0]]
	return v, v.Type == spec.Type{Kind: pb.Kind_BINARY, List: true}
}

func (b *byteLists) size(w *Window, from, to int) (n, spare int64) {
	v, ok := b.vector(w)
	if n = 4 * int64(to-from+1); !ok {
		return n, 0 // build says what is wrong
	}
	strings := upperBound(w, v, from, to)
	return n + 4*int64(strings+1) + bytesIn(w, v, from, to), 0
}

// bytesIn is how many bytes the elements of output rows [from, to) have, null ones included.
func bytesIn(w *Window, v *vector.Vector, from, to int) (n int64) {
	if w.Order == nil {
		return int64(v.Ends[v.Offsets[to]] - v.Ends[v.Offsets[from]])
	}
	for _, row := range w.Order[from:to] {
		n += int64(v.Ends[v.Offsets[row+1]] - v.Ends[v.Offsets[row]])
	}
	return n
}

func (b *byteLists) build(out *Batch, w *Window, from, to int) error {
	v, ok := b.vector(w)
	if !ok {
		return typeError(v, "list<binary>")
	}
	strings := upperBound(w, v, from, to)
	offsets, ends := room[int32](out, to-from+1), room[int32](out, strings+1)
	values := room[byte](out, int(bytesIn(w, v, from, to)))
	count, end := strings, len(values)
	if w.Order == nil && v.ElemValid == nil { // they lie one behind the other
		first := v.Offsets[from]
		less(offsets, v.Offsets[from:to+1], first)
		less(ends, v.Ends[first:int(first)+strings+1], v.Ends[first])
		copy(values, v.Data[v.Ends[first]:])
	} else {
		count, end = byteStringsOf(w, v, from, offsets, ends, values)
	}
	out.keep(end)
	out.add(to-from, bytesOf(offsets))
	out.add(count, bytesOf(ends), values[:end])
	return nil
}

// byteStringsOf writes those of output rows from, from+1, ... and returns how many they are, and how many bytes.
func byteStringsOf(w *Window, v *vector.Vector, from int, offsets, ends []int32, values []byte) (count, end int) {
	rows := len(offsets) - 1
	for i := range rows {
		offsets[i] = int32(count)
		row := w.Source(from + i)
		for j := v.Offsets[row]; j < v.Offsets[row+1]; j++ {
			ends[count] = int32(end)
			if !v.ElemIsNull(int(j)) {
				end += copy(values[end:], v.Data[v.Ends[j]:v.Ends[j+1]])
			}
			count++
		}
	}
	offsets[rows], ends[count] = int32(count), int32(end)
	return count, end
}
