package parquet

import (
	"encoding/binary"

	"github.com/penstock-ml/penstock/internal/simd"
)

const (
	// maxVectorWidth is the widest number of bits that unpackVector takes: from any bit of a byte on, it fits 32 bits.
	maxVectorWidth = 25
	// unpackSlack is how far behind a group's first byte loads of unpackVector may end, beyond half the group.
	unpackSlack = 16
)

// unpack decodes numbers of width bits, 1 to 32, from number at of packed on, which has them all, and returns
// the largest.
func unpack(dst []uint32, packed []byte, at, width int) (largest uint32) {
	i := 0
	if simdLevel >= simd.AVX2 && width <= maxVectorWidth && len(dst) >= 16 {
		if head := -at & 7; head > 0 { // groups begin at whole bytes
			largest, i = unpackSlow(dst[:head], packed, at, width), head
		}
		first := (at + i) >> 3 * width
		if groups := unpackGroups((len(dst)-i)>>3, len(packed)-first, width); groups > 0 {
			largest = max(largest, unpackVector(dst[i:i+groups<<3], packed[first:], width))
			i += groups << 3
		}
	}
	return max(largest, unpackSlow(dst[i:], packed, at+i, width))
}

// unpackGroups is for how many of some groups of eight, the first of which begins where there are size bytes left, all
// loads of unpackVector lie in these.
func unpackGroups(groups, size, width int) int {
	room := size - width>>1 - unpackSlack
	if room >= (groups-1)*width {
		return groups // as for most: no division is needed
	}
	if room < 0 {
		return 0
	}
	return room/width + 1
}

// unpackSlow does so one by one.
func unpackSlow(dst []uint32, packed []byte, at, width int) (largest uint32) {
	mask := uint32(lowBits(width))
	bit, i := at*width, 0
	for ; i < len(dst) && bit>>3+8 <= len(packed); i++ {
		v := uint32(binary.LittleEndian.Uint64(packed[bit>>3:])>>(bit&7)) & mask
		dst[i], largest, bit = v, max(largest, v), bit+width
	}
	for ; i < len(dst); i++ {
		v := uint32(bitsAt(packed, bit)) & mask
		dst[i], largest, bit = v, max(largest, v), bit+width
	}
	return largest
}
