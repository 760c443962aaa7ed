//go:build !amd64

package columns

// haveVectorUnpack says whether unpackVector may be called.
const haveVectorUnpack = false

func unpackVector([]uint32, []byte, int) uint32 { panic("columns: no vector unit") }
