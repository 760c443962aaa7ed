//go:build !amd64

package columns

// simd says that there is no other loop than that of plain Go.
var simd struct{ avx2, avx512 bool } //nolint:gochecknoglobals // a property of the machine: only tests write it

// expand writes positions from to to of dst: values of src, which has as many as valid has bits there, in their order, where
// there is a bit, and fill where there is none. Src may be where dst has these positions.
func expand[T word](dst, src []T, valid []uint64, from, to int, fill T) {
	expandPlain(dst, src, valid, from, to, fill)
}
