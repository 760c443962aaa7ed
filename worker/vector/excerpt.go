package vector

import "github.com/penstock-ml/penstock/api/pb"

// Excerpt holds chosen rows of vectors, in memory that it uses again.
type Excerpt struct {
	out              Vector
	valid, elemValid []uint64
	wide             []int64
	narrow           []uint32
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
	}
	return int64(8*values + bytes)
}

// Held is how many bytes its memory has.
func (e *Excerpt) Held() int64 {
	v := &e.out
	words := cap(e.valid) + cap(e.elemValid) + cap(e.wide) + cap(v.F64)
	halves := cap(v.Offsets) + cap(e.narrow) + cap(v.I32) + cap(v.F32) + cap(v.Ends)
	return 8*int64(words) + 4*int64(halves) + int64(cap(v.Bool)+cap(v.Data))
}

// Take returns a vector of those rows of another one that are listed, in the list's order. It is valid until the next
// Take, however the other one changes. That must hold values: neither codes nor pictures.
func (e *Excerpt) Take(from *Vector, rows []int32) *Vector {
	v := &e.out
	v.Type, v.Rows, v.Early = from.Type, len(rows), from.Early
	v.Valid, v.ElemValid, v.I64, v.U32 = nil, nil, nil, nil
	if from.Valid != nil {
		e.valid = Grow(e.valid, Words(len(rows)))
		takeBits(e.valid, from.Valid, rows)
		v.Valid = e.valid
	}
	if from.Type.List {
		e.takeShape(from, rows)
	}
	switch from.Type.Kind {
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
	}
	return v
}

// takeShape makes the lengths of lists, and the bits of their elements.
func (e *Excerpt) takeShape(from *Vector, rows []int32) {
	v, n := &e.out, int32(0)
	v.Offsets = Grow(v.Offsets, len(rows)+1)
	for i, row := range rows {
		v.Offsets[i] = n
		n += from.Offsets[row+1] - from.Offsets[row]
	}
	v.Offsets[len(rows)] = n
	if from.ElemValid == nil {
		return
	}
	e.elemValid = Grow(e.elemValid, Words(int(n)))
	clear(e.elemValid)
	at := 0
	for _, row := range rows {
		for j := from.Offsets[row]; j < from.Offsets[row+1]; j++ {
			e.elemValid[at>>6] |= from.ElemValid[j>>6] >> (j & 63) & 1 << (at & 63)
			at++
		}
	}
	v.ElemValid = e.elemValid
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
	for _, row := range rows {
		list := src[from.Offsets[row]:from.Offsets[row+1]]
		for j, to := 0, dst[n:n+len(list)]; j < len(list); j++ { // most are too short for copy to pay
			to[j] = list[j]
		}
		n += len(list)
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
		return v.Offsets[row], v.Offsets[row+1]
	}
	return row, row + 1
}
