//go:build !amd64

package columns

// haveVectorUnpack says whether unpackVector and addVector may be called.
const haveVectorUnpack = false

func unpackVector([]uint32, []byte, int) uint32 { panic("columns: no vector unit") }

func addVector[T word]([]T, []byte, int, int64, int64) int64 { panic("columns: no vector unit") }
