package parquet

import "unsafe"

// unpackTable says how to bring eight numbers of one width into the lanes of a vector: which bytes of sixteen, in
// each half, hold a number, and how far it is shifted in them.
type unpackTable struct {
	bytes  [32]uint8
	shifts [8]uint32
	mask   [8]uint32
}

//nolint:gochecknoglobals // a constant
var unpackTables = func() (tables [maxVectorWidth + 1]unpackTable) {
	for width := 1; width <= maxVectorWidth; width++ {
		t := &tables[width]
		for i := range 8 {
			bit := i * width
			if i >= 4 {
				bit -= width >> 1 * 8 // the second half is loaded from there on
			}
			t.shifts[i], t.mask[i] = uint32(bit&7), 1<<width-1
			for k := range 4 {
				t.bytes[i*4+k] = uint8(bit>>3 + k) // at most 12
			}
		}
	}
	return tables
}()

// unpackVector decodes len(dst) numbers, a multiple of eight, from packed's first bit on. Of the last eight, which
// begin at byte b, packed has b + width/2 + unpackSlack bytes or more. It returns the largest.
func unpackVector(dst []uint32, packed []byte, width int) uint32 {
	if len(dst) == 0 {
		return 0
	}
	return unpackAVX2(&dst[0], len(dst)>>3, &packed[0], width, width>>1, &unpackTables[width])
}

// unpackAVX2 decodes groups of eight numbers, 1 or more.
//
//go:noescape
func unpackAVX2(dst *uint32, groups int, packed *byte, width, half int, table *unpackTable) (largest uint32)

// addVector unpacks as many numbers as dst has, a multiple of eight, as unpackVector does, and writes the sums of last
// and all of them so far, each with least added. It returns the last sum, of which only as many bits count as T has.
func addVector[T word](dst []T, packed []byte, width int, last, least int64) int64 {
	to, groups, t := unsafe.Pointer(unsafe.SliceData(dst)), len(dst)>>3, &unpackTables[width]
	if unsafe.Sizeof(dst[0]) == 4 {
		return addAVX2x4(to, groups, &packed[0], width, width>>1, t, last, least)
	}
	return addAVX2x8(to, groups, &packed[0], width, width>>1, t, last, least)
}

// addAVX2x4 sums groups of eight numbers, 1 or more, in four bytes each.
//
//go:noescape
func addAVX2x4(dst unsafe.Pointer, groups int, packed *byte, width, half int, table *unpackTable, last,
	least int64) (sum int64)

// addAVX2x8 does so in eight bytes each.
//
//go:noescape
func addAVX2x8(dst unsafe.Pointer, groups int, packed *byte, width, half int, table *unpackTable, last,
	least int64) (sum int64)
