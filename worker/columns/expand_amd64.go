package columns

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// haveExpand says whether expand32 and expand64 may be called.
var haveExpand = cpu.X86.HasAVX512F && cpu.X86.HasPOPCNT //nolint:gochecknoglobals // a constant of the machine

// expand32 and expand64 write groups of 16, or of 8, values, 1 or more, from the group at dst downwards; what they take
// are the last of the values that src has, and the group's bits lie at valid. Of the first group they write what top
// has bits for. They return how many they took.
//
//go:noescape
func expand32(dst, src *uint32, have int, valid *byte, groups int, top, fill uint32) (taken int)

//go:noescape
func expand64(dst, src *uint64, have int, valid *byte, groups int, top uint32, fill uint64) (taken int)

// expand writes positions from to to of dst: values of src, which has as many as valid has bits there, in their order, where
// there is a bit, and fill where there is none. Src may be where dst has these positions.
func expand[T word](dst, src []T, valid []uint64, from, to int, fill T) {
	size := int(unsafe.Sizeof(fill))
	lanes := 64 / size
	first, last := (from+lanes-1)&^(lanes-1), (to-1)&^(lanes-1) // the group that begins there is written first
	if !haveExpand || to <= from || last < first {
		expandPlain(dst, src, valid, from, to, fill)
		return
	}
	_, _ = dst[to-1], valid[(to-1)>>6]
	at, bits := unsafe.Pointer(&dst[last]), (*byte)(unsafe.Add(unsafe.Pointer(&valid[0]), last>>3))
	values := unsafe.Pointer(unsafe.SliceData(src))
	groups, top, taken := (last-first)/lanes+1, uint32(lowBits(to-last)), 0
	if size == 4 {
		taken = expand32((*uint32)(at), (*uint32)(values), len(src), bits, groups, top, uint32(fill))
	} else {
		taken = expand64((*uint64)(at), (*uint64)(values), len(src), bits, groups, top, uint64(fill))
	}
	expandPlain(dst, src[:len(src)-taken], valid, from, first, fill)
}
