package tensor

import (
	"unsafe"

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
	int32 | int64 | float32 | float64 | unsigned
}

// numbers returns n values on the scratch's memory; Go's allocator aligns it for every number.
func numbers[T number](b *[]byte, n int) []T {
	var zero T
	*b = vector.Grow(*b, n*int(unsafe.Sizeof(zero)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(*b))), n)
}

// bytesOf is the memory of fixed-size values.
func bytesOf[T any](s []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(zero)))
}

func bit(words []uint64, i int) bool { return words == nil || words[i>>6]>>(i&63)&1 == 1 }
