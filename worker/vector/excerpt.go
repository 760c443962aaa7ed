package vector

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Excerpt holds chosen rows of vectors, in memory that it uses again.
type Excerpt struct {
	out              Vector
	valid, elemValid []uint64
	wide             []int64
	narrow           []uint32
	small            []byte
	nested           []Level // of lists of lists, with memory for the bits of each
}

// SizeOf is about what an Excerpt takes, in bytes.
func SizeOf(from *Vector, rows []int32) int64 {
	values, bytes := 0, 4*len(rows)
	for _, row := range rows {
		first, last := from.span(row)
		values += int(last - first)
		if from.Type.Kind == pb.Kind_BINARY && first < last {
			bytes += int(from.Ends[last] - from.Ends[first])
		}
		bytes += 4 * from.inner(row)
	}
	return int64(8*values + bytes)
}

// Held is how many bytes its memory has.
func (e *Excerpt) Held() int64 {
	v := &e.out
	words := cap(e.valid) + cap(e.elemValid) + cap(e.wide) + cap(v.F64)
	halves := cap(v.Offsets) + cap(e.narrow) + cap(v.I32) + cap(v.F32) + cap(v.Ends)
	for _, level := range e.nested {
		words, halves = words+cap(level.Valid), halves+cap(level.Offsets)
	}
	return 8*int64(words) + 4*int64(halves) + int64(cap(v.Bool)+cap(v.Data)+cap(e.small))
}

// Take returns a vector of those rows of another one that are listed, in the list's order. It is valid until the next
// Take, however the other one changes. That must hold values: neither codes nor pictures.
func (e *Excerpt) Take(from *Vector, rows []int32) *Vector {
	v := &e.out
	v.Type, v.Rows, v.Early = from.Type, len(rows), from.Early
	v.Valid, v.ElemValid, v.I64, v.U32, v.Small = nil, nil, nil, nil, nil
	v.Nested = v.Nested[:0]
	if from.Valid != nil {
		e.valid = Grow(e.valid, Words(len(rows)))
		takeBits(e.valid, from.Valid, rows)
		v.Valid = e.valid
	}
	if from.Type.List {
		e.takeShape(from, rows)
	}
	switch kind := from.Type.Kind; kind {
	case pb.Kind_BOOL:
		v.Bool = takeValues(v.Bool, from.Bool, from, rows, v.Len())
	case pb.Kind_INT32:
		v.I32 = takeValues(v.I32, from.I32, from, rows, v.Len())
	case pb.Kind_INT64:
		if from.U32 != nil {
			e.narrow = takeValues(e.narrow, from.U32, from, rows, v.Len())
			v.U32 = e.narrow
			break
		}
		e.wide = takeValues(e.wide, from.I64, from, rows, v.Len())
		v.I64 = e.wide
	case pb.Kind_FLOAT32:
		v.F32 = takeValues(v.F32, from.F32, from, rows, v.Len())
	case pb.Kind_FLOAT64:
		v.F64 = takeValues(v.F64, from.F64, from, rows, v.Len())
	case pb.Kind_BINARY:
		takeTexts(v, from, rows)
	default:
		e.small = takeSmall(e.small, from.Small, spec.Width(kind), from, rows, v.Len())
		v.Small = e.small
	}
	return v
}

// takeShape makes the lengths of lists, and the bits of what they hold.
func (e *Excerpt) takeShape(from *Vector, rows []int32) {
	v, n := &e.out, int32(0)
	v.Offsets = Grow(v.Offsets, len(rows)+1)
	for i, row := range rows {
		v.Offsets[i] = n
		n += from.Offsets[row+1] - from.Offsets[row]
	}
	v.Offsets[len(rows)] = n
	for k := range from.Nested {
		n = e.takeLevel(k, from, rows, int(n))
	}
	if from.ElemValid != nil {
		e.elemValid = takeRuns(e.elemValid, from.ElemValid, from, len(from.Nested), rows, int(n))
		v.ElemValid = e.elemValid
	}
}

// takeLevel makes a level of lists within lists, of which rows have n, and returns how much these hold.
func (e *Excerpt) takeLevel(k int, from *Vector, rows []int32, n int) int32 {
	if k == len(e.nested) {
		e.nested = append(e.nested, Level{})
	}
	of, room := &from.Nested[k], &e.nested[k]
	room.Offsets = Grow(room.Offsets, n+1)
	at, below := 0, int32(0)
	for _, row := range rows {
		first, last := from.lists(k, row)
		for j := first; j < last; j++ {
			room.Offsets[at] = below
			below += of.Offsets[j+1] - of.Offsets[j]
			at++
		}
	}
	room.Offsets[n] = below
	level := Level{Offsets: room.Offsets}
	if of.Valid != nil {
		room.Valid = takeRuns(room.Valid, of.Valid, from, k, rows, n)
		level.Valid = room.Valid
	}
	e.out.Nested = append(e.out.Nested, level)
	return below
}

// takeRuns copies the n bits that are about the lists of rows at a level of Nested, or about the elements below it.
func takeRuns(dst, src []uint64, from *Vector, k int, rows []int32, n int) []uint64 {
	dst = Grow(dst, Words(n))
	clear(dst)
	at := 0
	for _, row := range rows {
		first, last := from.lists(k, row)
		for j := first; j < last; j++ {
			dst[at>>6] |= src[j>>6] >> (j & 63) & 1 << (at & 63)
			at++
		}
	}
	return dst
}

func takeBits(dst, src []uint64, rows []int32) {
	for w := range dst {
		word := uint64(0)
		for i, row := range rows[w<<6 : min(w<<6+64, len(rows))] {
			word |= src[row>>6] >> (row & 63) & 1 << i
		}
		dst[w] = word
	}
}

// takeValues copies the n values of rows.
func takeValues[T any](dst, src []T, from *Vector, rows []int32, n int) []T {
	dst = Grow(dst, n)
	if !from.Type.List {
		for i, row := range rows {
			dst[i] = src[row]
		}
		return dst
	}
	n = 0
	nested := len(from.Nested) > 0
	for _, row := range rows {
		first, last := from.Offsets[row], from.Offsets[row+1]
		if nested {
			first, last = from.span(row)
		}
		list := src[first:last]
		for j, to := 0, dst[n:n+len(list)]; j < len(list); j++ { // most are too short for copy to pay
			to[j] = list[j]
		}
		n += len(list)
	}
	return dst
}

// takeSmall copies the n values of rows, each of so many bytes.
func takeSmall(dst, src []byte, width int, from *Vector, rows []int32, n int) []byte {
	dst = Grow(dst, width*n)
	at := 0
	for _, row := range rows {
		first, last := from.span(row)
		at += copy(dst[at:], src[width*int(first):width*int(last)])
	}
	return dst
}

func takeTexts(v, from *Vector, rows []int32) {
	v.Ends = Grow(v.Ends, v.Len()+1)
	v.Ends[0] = 0
	n, size := 1, int32(0)
	for _, row := range rows {
		first, last := from.span(row)
		for j := first; j < last; j++ {
			size += from.Ends[j+1] - from.Ends[j]
			v.Ends[n] = size
			n++
		}
	}
	v.Data = Grow(v.Data, int(size))
	at := 0
	for _, row := range rows {
		if first, last := from.span(row); first < last {
			at += copy(v.Data[at:], from.Data[from.Ends[first]:from.Ends[last]])
		}
	}
}

// span is where a row's values lie.
func (v *Vector) span(row int32) (first, last int32) {
	if v.Type.List {
		return v.lists(len(v.Nested), row)
	}
	return row, row + 1
}

// lists is where a row's lists of a level of Nested lie, or behind the last one its elements.
func (v *Vector) lists(k int, row int32) (first, last int32) {
	first, last = v.Offsets[row], v.Offsets[row+1]
	for i := range v.Nested[:k] {
		offsets := v.Nested[i].Offsets
		first, last = offsets[first], offsets[last]
	}
	return first, last
}

// inner is how many lists within its list a row has, all levels together.
func (v *Vector) inner(row int32) (n int) {
	for k := range v.Nested {
		first, last := v.lists(k, row)
		n += int(last - first)
	}
	return n
}
