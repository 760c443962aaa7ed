//go:build !amd64

package parquet

// expand writes positions from to to of dst: values of src, which has as many as valid has bits there, in their order,
// where there is a bit, and fill where there is none. Src may be where dst has these positions.
func expand[T word](dst, src []T, valid []uint64, from, to int, fill T) {
	expandPlain(dst, src, valid, from, to, fill)
}
