package columns

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// haveVectorSpread says whether spreadVector may be called.
var haveVectorSpread = cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT //nolint:gochecknoglobals // a constant of the machine

// spreadTable has for each set of some positions, as bits, the lanes of four bytes that they get, a byte for each lane: the k-th of the
// set gets the k-th value. Others get some value, too.
//
//nolint:gochecknoglobals // constants
var (
	spreadTable4 = func() (table [256][8]uint8) { // of values of four bytes
		for set := range table {
			for lane := range 8 {
				table[set][lane] = uint8(bits.OnesCount(uint(set) & (1<<lane - 1)))
			}
		}
		return table
	}()
	spreadTable8 = func() (table [16][8]uint8) { // of eight
		for set := range table {
			for lane := range 8 {
				table[set][lane] = uint8(2*bits.OnesCount(uint(set)&(1<<(lane/2)-1)) + lane%2)
			}
		}
		return table
	}()
)

// spreadVector is spreadSlow for values of four or eight bytes at v, and positions first to behind, both multiples of eight. As many of
// the values before src as there are bits must be there, and src must not lie behind the last position.
func spreadVector(v unsafe.Pointer, valid []uint64, size uintptr, first, behind, src int) int {
	bytes := (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(valid)), first/8))
	to, groups := unsafe.Add(v, uintptr(behind)*size), (behind-first)/8
	if size == 4 {
		return spreadAVX2x4(v, to, bytes, groups, src, &spreadTable4)
	}
	return spreadAVX2x8(v, to, bytes, groups, src, &spreadTable8)
}

// spreadAVX2x4 fills groups of eight positions, 1 or more, that end at to.
//
//go:noescape
func spreadAVX2x4(v, to unsafe.Pointer, valid *byte, groups, src int, table *[256][8]uint8) (left int)

// spreadAVX2x8 does so with values of eight bytes.
//
//go:noescape
func spreadAVX2x8(v, to unsafe.Pointer, valid *byte, groups, src int, table *[16][8]uint8) (left int)
