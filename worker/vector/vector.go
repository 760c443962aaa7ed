// Package vector holds a column of one window in Arrow's memory layout: the form in which data passes from
// formats through transform to tensor. Vectors are scratch: whoever made one may reuse its memory for the next
// window, so nobody keeps it longer. A vector's slices may be shared with other vectors (an op that keeps the
// lengths shares Offsets) and are therefore never changed after it has been handed on. Not safe for concurrent
// writes.
package vector

import (
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
)

// Vector is a column of Rows rows. Exactly one of the value slices is in use, or Pictures, as Type.Kind says: with list
// types it holds the elements of all rows one after another, else one value a row. Values of null rows and null
// elements are unspecified but present; null rows of list types have no elements. Numbers may lie where a page was
// decompressed, so that they are aligned as bytes are.
type Vector struct {
	Type spec.Type
	Rows int
	// Valid has bit i%64 of word i/64 set if row i is not null; nil means that none is. Bits past Rows are unspecified.
	Valid []uint64
	// Offsets of list types: row i has elements Offsets[i] to Offsets[i+1]. Length Rows+1; Offsets[0] is 0.
	Offsets []int32
	// ElemValid is to elements of list types what Valid is to rows.
	ElemValid []uint64
	// Nested has, of lists of lists, the levels below that of Offsets, of which there are Type.Nested. Offsets then
	// count the lists of the first one, and those of each level the lists of the next, and the last the elements.
	Nested []Level

	Bool []bool
	I32  []int32
	I64  []int64
	F32  []float32
	F64  []float64
	// U32 stands in for I64, which is nil then, where the vector's maker was told by Early.Narrow that it may.
	U32 []uint32
	// Data and Ends hold BINARY values: value j is Data[Ends[j]:Ends[j+1]].
	Data []byte
	Ends []int32
	// Small holds values of the kinds that no op computes with (spec.Small), little endian, spec.Width bytes each.
	Small []byte
	// Codes and Dict stand in for the value slices of what a decoder shows to a filter: value j is value Codes[j] of
	// Dict, which has no nulls; codes of null rows mean nothing. Another dictionary is another vector.
	Codes []uint32
	Dict  *Vector
	// Pictures makes PICTURE values. Where they have been made, it is nil, and Data and Ends hold their pixels.
	Pictures Pictures
	// Early says that the values went through the Early step that their maker was given.
	Early bool
}

// Level is one of lists within lists.
type Level struct {
	Offsets []int32 // list i has what lies from Offsets[i] to Offsets[i+1] below it; the first is 0
	// Valid is to the lists of this level what Vector.Valid is to rows. Null ones are empty.
	Valid []uint64
}

// IsNull reports whether list j is null.
func (l *Level) IsNull(j int) bool { return isNull(l.Valid, j) }

// Early is a step that needs nothing but a column's values, one by one. Whoever makes these may take it on the way: on
// a dictionary's entries, say, in place of all values that are looked up there.
type Early struct {
	// Fill is a vector of the column's kind whose one value takes the place of nulls, as with fill_null, or as NaN does
	// in dense tensors; nil: nulls stay.
	Fill *Vector
	// Change makes other values of int64 values; dst and src may be the same slice. Nil: they stay.
	Change func(dst, src []int64)
	// Narrow says that whoever reads the values behind the step takes int64 values that all are in [0, 2^32) as U32,
	// too. A vector whose values did not go through the step has none.
	Narrow bool
}

// Pictures makes the values of a vector of kind PICTURE, one at a time, where they are wanted: they take no memory
// before.
type Pictures interface {
	// Make writes the picture of a row that is not null.
	Make(row int, to images.Canvas) error
	// Size is how many pixels the picture of such a row is going to have.
	Size(row int) (height, width int, err error)
}

// Len is the number of values: elements of lists, or rows.
func (v *Vector) Len() int {
	if !v.Type.List {
		return v.Rows
	}
	return v.Element(v.Rows)
}

// Element is the first element of row i of a list type; of row Rows, how many there are.
func (v *Vector) Element(i int) int {
	at := v.Offsets[i]
	for _, level := range v.Nested {
		at = level.Offsets[at]
	}
	return int(at)
}

// IsNull reports whether row i is null.
func (v *Vector) IsNull(i int) bool { return isNull(v.Valid, i) }

// SetNull makes row i null, where the vector has a bitmap for it, as results of ops have.
func (v *Vector) SetNull(i int) { v.Valid[i>>6] &^= 1 << (i & 63) }

// ElemIsNull reports whether value j is null: an element of a list type, or the row of a scalar one.
func (v *Vector) ElemIsNull(j int) bool {
	if !v.Type.List {
		return v.IsNull(j)
	}
	return isNull(v.ElemValid, j)
}

func isNull(valid []uint64, i int) bool { return valid != nil && valid[i>>6]>>(i&63)&1 == 0 }

// ValueValid is the validity bitmap of the values: ElemValid of list types, Valid of scalars.
func (v *Vector) ValueValid() []uint64 {
	if v.Type.List {
		return v.ElemValid
	}
	return v.Valid
}

// Grow returns a slice of length n on s's memory where that is large enough, with unspecified contents.
func Grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/8+64)
	}
	return s[:n]
}

// Words is the length of a bitmap of n bits.
func Words(n int) int { return (n + 63) >> 6 }
