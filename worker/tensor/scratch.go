package tensor

import (
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/worker/vector"
)

// scratch is the memory of one output of one batch, used again for the next.
type scratch struct {
	values  []byte
	weights []byte
	offsets []int32
}

// number is an element type of tensors.
type number interface {
	~int32 | ~int64 | ~float32 | ~float64
}

// numbers returns n values on the scratch's memory; Go's allocator aligns it for every number.
func numbers[T number](b *[]byte, n int) []T {
	var zero T
	*b = vector.Grow(*b, n*int(unsafe.Sizeof(zero)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(*b))), n)
}

// buffer wraps a slice of fixed-size values as an Arrow buffer, without copying.
func buffer[T any](s []T) *memory.Buffer {
	var zero T
	if len(s) == 0 {
		return memory.NewBufferBytes([]byte{})
	}
	return memory.NewBufferBytes(unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(zero))))
}

// flat is an array of fixed-width values without nulls.
func flat(t arrow.DataType, n int, values *memory.Buffer) arrow.ArrayData {
	return array.NewData(t, n, []*memory.Buffer{nil, values}, nil, 0, 0)
}

// nested is a list-like array without nulls over one child; offsets is nil for fixed-size lists.
func nested(t arrow.DataType, n int, offsets *memory.Buffer, child arrow.ArrayData) arrow.ArrayData {
	buffers := []*memory.Buffer{nil}
	if offsets != nil {
		buffers = append(buffers, offsets)
	}
	return array.NewData(t, n, buffers, []arrow.ArrayData{child}, 0, 0)
}

func bit(words []uint64, i int) bool { return words == nil || words[i>>6]>>(i&63)&1 == 1 }
