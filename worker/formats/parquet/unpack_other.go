//go:build !amd64

package parquet

// Nothing calls these: simdLevel is simd.Plain.

func unpackVector([]uint32, []byte, int) uint32 { panic("columns: no vector unit") }

func addVector[T word]([]T, []byte, int, int64, int64) int64 { panic("columns: no vector unit") }
