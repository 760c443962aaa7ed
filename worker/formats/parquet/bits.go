package parquet

import (
	"encoding/binary"
	"math/bits"
)

// bitsAt returns at least 56 bits of packed from bit at on, zeros behind its end.
func bitsAt(packed []byte, at int) uint64 {
	i := at >> 3
	if i+8 <= len(packed) {
		return binary.LittleEndian.Uint64(packed[i:]) >> (at & 7)
	}
	var v uint64
	for j := 0; i+j < len(packed); j++ {
		v |= uint64(packed[i+j]) << (8 * j)
	}
	return v >> (at & 7)
}

// evenBits packs the 32 even bits of v together.
func evenBits(v uint64) uint64 {
	v &= 0x5555555555555555
	v = (v | v>>1) & 0x3333333333333333
	v = (v | v>>2) & 0x0f0f0f0f0f0f0f0f
	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return (v | v>>16) & 0x00000000ffffffff
}

// putBits sets n bits of out, 1 to 64, from bit pos on. Bits behind them in the words that it touches change too.
func putBits(out []uint64, pos int, v uint64, n int) {
	w, s := pos>>6, pos&63
	out[w] = out[w]&(1<<s-1) | v<<s
	if s+n > 64 {
		out[w+1] = v >> (64 - s)
	}
}

// fillBits sets n bits of out from pos on to one value.
func fillBits(out []uint64, pos, n int, set bool) {
	for n > 0 {
		w, s := pos>>6, pos&63
		m := min(n, 64-s)
		mask := ^uint64(0) >> (64 - m) << s
		if set {
			out[w] |= mask
		} else {
			out[w] &^= mask
		}
		pos, n = pos+m, n-m
	}
}

// lowBits is a mask of n bits, 0 to 64.
func lowBits(n int) uint64 { return uint64(1)<<n - 1 }

// validity is a bitmap that grows. It takes no memory's time until the first zero.
type validity struct {
	bits  []uint64
	n     int
	zeros bool // some bit is not set; else bits is not filled in
}

func (v *validity) reset() { v.n, v.zeros = 0, false }

// bitmap is nil if all bits are set.
func (v *validity) bitmap() []uint64 {
	if !v.zeros {
		return nil
	}
	return v.bits[:(v.n+63)>>6]
}

func (v *validity) addOnes(n int) {
	if v.zeros {
		v.room(n)
		fillBits(v.bits, v.n, n, true)
	}
	v.n += n
}

// add appends the low n bits of w, 0 to 64.
func (v *validity) add(w uint64, n int) {
	if n == 0 {
		return
	}
	if !v.zeros && w&lowBits(n) == lowBits(n) {
		v.n += n
		return
	}
	v.room(n)
	if !v.zeros {
		v.zeros = true
		fillBits(v.bits, 0, v.n, true)
	}
	putBits(v.bits, v.n, w, n)
	v.n += n
}

// addBlock appends n bits of words and returns how many of them are set. Bits past n are not set.
func (v *validity) addBlock(words []uint64, n int) (ones int) {
	for i := 0; n > 0; i++ {
		m := min(n, 64)
		ones += bits.OnesCount64(words[i])
		v.add(words[i], m)
		n -= m
	}
	return ones
}

// room makes sure that n more bits fit.
func (v *validity) room(n int) {
	words := (v.n + n + 63) >> 6
	if words > len(v.bits) {
		grown := make([]uint64, words+words/2+8)
		copy(grown, v.bits)
		v.bits = grown
	}
}
