package columns

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// haveExpand says whether expand32 and expand64 may be called.
var haveExpand = cpu.X86.HasAVX512F && cpu.X86.HasPOPCNT //nolint:gochecknoglobals // a constant of the machine

// expand32 and expand64 write groups of 16, or of 8, values, 1 or more, to what lies before dst; what they take lies before src, and
// a bit for each before valid. They return how many they took.
//
//go:noescape
func expand32(dst, src *uint32, valid *byte, groups int, fill uint32) (taken int)

//go:noescape
func expand64(dst, src *uint64, valid *byte, groups int, fill uint64) (taken int)

// expand writes positions from to to of dst: values of src, which has as many as valid has bits there, in their order, where
// there is a bit, and fill where there is none. Src may be where dst has these positions.
func expand[T word](dst, src []T, valid []uint64, from, to int, fill T) {
	lanes := 64 / int(unsafe.Sizeof(fill))
	first, last := (from+lanes-1)&^(lanes-1), to&^(lanes-1)
	if !haveExpand || last <= first {
		expandPlain(dst, src, valid, from, to, fill)
		return
	}
	src = src[:expandPlain(dst, src, valid, last, to, fill)]
	_, _ = dst[last-1], valid[(last-1)>>6]
	dstEnd, srcEnd := behind(dst[:last]), behind(src)
	bits := (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(valid)), last>>3))
	groups, taken := (last-first)/lanes, 0
	if lanes == 16 {
		taken = expand32((*uint32)(dstEnd), (*uint32)(srcEnd), bits, groups, uint32(fill))
	} else {
		taken = expand64((*uint64)(dstEnd), (*uint64)(srcEnd), bits, groups, uint64(fill))
	}
	expandPlain(dst, src[:len(src)-taken], valid, from, first, fill)
}

// behind is where a slice ends.
func behind[T word](s []T) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s)), len(bytesOf(s)))
}
