package arrow

import "encoding/binary"

// bitsAt are n bits of src, at most 64, from a position on.
func bitsAt(src []byte, pos, n int) uint64 {
	at, shift := pos>>3, pos&7
	var room [16]byte
	if have := src[at:]; len(have) >= 9 {
		return cut(binary.LittleEndian.Uint64(have)>>shift|uint64(have[8])<<(64-shift), n)
	}
	copy(room[:], src[at:])
	return cut(binary.LittleEndian.Uint64(room[:])>>shift|uint64(room[8])<<(64-shift), n)
}

// cut leaves n bits of a word.
func cut(word uint64, n int) uint64 {
	if n < 64 {
		word &= 1<<n - 1
	}
	return word
}

// andBits takes from n bits of dst, from a position on, those that are not in src.
func andBits(dst []uint64, at int, src []byte, pos, n int) {
	for n > 0 {
		k := min(n, 64-at&63)
		word := bitsAt(src, pos, k)
		dst[at>>6] &= word<<(at&63) | ^(cut(^uint64(0), k) << (at & 63))
		at, pos, n = at+k, pos+k, n-k
	}
}

// setBits sets the first n bits of dst.
func setBits(dst []uint64, n int) {
	for i := range (n + 63) >> 6 {
		dst[i] = ^uint64(0)
	}
}

// allSet reports whether the first n bits are.
func allSet(set []uint64, n int) bool {
	for i := range n >> 6 {
		if set[i] != ^uint64(0) {
			return false
		}
	}
	return n&63 == 0 || cut(^set[n>>6], n&63) == 0
}
