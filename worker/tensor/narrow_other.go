//go:build !amd64

package tensor

// There are no other loops than those of plain Go.

func narrowSIMD[D unsigned | int64, S int64 | uint32 | int32]([]D, []S) int { return 0 }

func bitsSIMD[T int32 | int64 | uint32]([]T) (bits T, n int) { return 0, 0 }

func packSIMD(_, _ []uint32) int { return 0 }
