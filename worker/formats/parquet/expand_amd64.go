package parquet

import (
	"unsafe"

	"github.com/penstock-ml/penstock/internal/simd"
)

// expand writes positions from to to of dst: values of src, which has as many as valid has bits there, in their order,
// where there is a bit, and fill where there is none. Src may be where dst has these positions.
func expand[T word](dst, src []T, valid []uint64, from, to int, fill T) {
	switch {
	case simdLevel >= simd.AVX512:
		expandBy512(dst, src, valid, from, to, fill)
	case simdLevel >= simd.AVX2:
		expandBy256(dst, src, valid, from, to, fill)
	default:
		expandPlain(dst, src, valid, from, to, fill)
	}
}

// expand32AVX512 and expand64AVX512 write groups of 16, or of 8, values, 1 or more, from the group at dst downwards;
// what they take are the last of the values that src has, and the group's bits lie at valid. Of the first group they
// write what top has bits for. They return how many they took.
//
//go:noescape
func expand32AVX512(dst, src *uint32, have int, valid *byte, groups int, top, fill uint32) (taken int)

//go:noescape
func expand64AVX512(dst, src *uint64, have int, valid *byte, groups int, top uint32, fill uint64) (taken int)

func expandBy512[T word](dst, src []T, valid []uint64, from, to int, fill T) {
	size := int(unsafe.Sizeof(fill))
	lanes := 64 / size
	first, last := (from+lanes-1)&^(lanes-1), (to-1)&^(lanes-1) // the group that begins there is written first
	if to <= from || last < first {
		expandPlain(dst, src, valid, from, to, fill)
		return
	}
	_, _ = dst[to-1], valid[(to-1)>>6]
	at, bits := unsafe.Pointer(&dst[last]), (*byte)(unsafe.Add(unsafe.Pointer(&valid[0]), last>>3))
	values := unsafe.Pointer(unsafe.SliceData(src))
	groups, top, taken := (last-first)/lanes+1, uint32(lowBits(to-last)), 0
	if size == 4 {
		taken = expand32AVX512((*uint32)(at), (*uint32)(values), len(src), bits, groups, top, uint32(fill))
	} else {
		taken = expand64AVX512((*uint64)(at), (*uint64)(values), len(src), bits, groups, top, uint64(fill))
	}
	expandPlain(dst, src[:len(src)-taken], valid, from, first, fill)
}

// expand32AVX2 and expand64AVX2 write groups of 8 values, 1 or more, from the group at dst downwards; what they take
// are the last of the values that src has, behind which there are 8 more, and the group's bits lie at valid. They
// return how many they took.
//
//go:noescape
func expand32AVX2(dst, src *uint32, have int, valid *byte, groups int, fill uint32, places *[256][8]int8) (taken int)

//go:noescape
func expand64AVX2(dst, src *uint64, have int, valid *byte, groups int, fill uint64, places *[16][8]int8) (taken int)

func expandBy256[T word](dst, src []T, valid []uint64, from, to int, fill T) {
	const lanes = 8
	left, top, first := len(src), to, (from+lanes-1)&^(lanes-1)
	// until there are values behind those that are left
	for top > first && (top&(lanes-1) != 0 || len(src)-left < lanes) {
		low := max(first, (top-1)&^(lanes-1))
		left, top = expandPlain(dst, src[:left], valid, low, top, fill), low
	}
	if groups := (top - first) / lanes; groups > 0 {
		_, _ = dst[top-1], valid[(top-1)>>6]
		at, bits := unsafe.Pointer(&dst[top-lanes]), (*byte)(unsafe.Add(unsafe.Pointer(&valid[0]), (top-lanes)>>3))
		values := unsafe.Pointer(&src[0])
		if unsafe.Sizeof(fill) == 4 {
			left -= expand32AVX2((*uint32)(at), (*uint32)(values), left, bits, groups, uint32(fill), &places.of32)
		} else {
			left -= expand64AVX2((*uint64)(at), (*uint64)(values), left, bits, groups, uint64(fill), &places.of64)
		}
		top = first
	}
	expandPlain(dst, src[:left], valid, from, top, fill)
}

// expandPlaces have for bits which values go where, as positions of 4 bytes each behind the first, and -1 for nulls:
// of32 for eight bits and values of 4 bytes, of64 for four bits and values of 8.
type expandPlaces struct {
	of32 [256][8]int8
	of64 [16][8]int8
}

var places = func() *expandPlaces { //nolint:gochecknoglobals // constants: nothing writes to them
	p := new(expandPlaces)
	for bits := range p.of32 {
		next := int8(0)
		for i := range p.of32[bits] {
			p.of32[bits][i] = -1
			if bits>>i&1 == 1 {
				p.of32[bits][i] = next
				next++
			}
		}
	}
	for bits := range p.of64 {
		for i, place := range p.of32[bits][:4] {
			first, second := 2*place, 2*place+1
			if place < 0 {
				first, second = -1, -1
			}
			p.of64[bits][2*i], p.of64[bits][2*i+1] = first, second
		}
	}
	return p
}()
