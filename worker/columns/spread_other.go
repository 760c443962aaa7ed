//go:build !amd64

package columns

import "unsafe"

// haveVectorSpread says whether spreadVector may be called.
const haveVectorSpread = false

func spreadVector(unsafe.Pointer, []uint64, uintptr, int, int, int) int {
	panic("columns: no vector unit")
}
