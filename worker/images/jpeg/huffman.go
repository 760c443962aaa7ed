package jpeg

import (
	"bytes"
	"errors"
)

const (
	lookupBits = 9  // codes up to this length are found at once
	fastBits   = 10 // codes with the bits of their coefficient, too
)

// huffman is one table.
type huffman struct {
	spec    []byte                  // the segment that it was made of: 16 counts and the symbols
	lookup  [1 << lookupBits]uint16 // symbol<<8 | length; 0 for longer codes
	fast    [1 << fastBits]uint32   // see fastEntry
	skips   [1 << fastBits]uint16   // see skipEntry; of AC coefficients alone
	least   [17]int32               // least code of each length
	most    [17]int32               // greatest code of each length, -1 if it has none
	first   [17]int32               // index of its symbol
	symbols [256]uint8
}

var errTable = errors.New("a Huffman table is malformed")

// set makes the table of a DHT segment's part, of DC or AC coefficients; one that is the same as before stays.
func (h *huffman) set(spec []byte, dc bool) error {
	if bytes.Equal(h.spec, spec) {
		return nil
	}
	h.spec = h.spec[:0] // until it is whole
	clear(h.lookup[:])
	symbols := spec[16:]
	copy(h.symbols[:], symbols)
	code, at := int32(0), int32(0)
	for length := 1; length <= 16; length++ {
		count := int32(spec[length-1])
		h.least[length], h.first[length], h.most[length] = code, at, code+count-1
		if count == 0 {
			h.most[length] = -1
		}
		if code+count > 1<<length {
			return errTable
		}
		for range count {
			if length <= lookupBits {
				entries := h.lookup[code<<(lookupBits-length):][:1<<(lookupBits-length)]
				for i := range entries {
					entries[i] = uint16(h.symbols[at])<<8 | uint16(length)
				}
			}
			code++
			at++
		}
		code <<= 1
	}
	for i := range h.fast {
		h.fast[i] = h.fastEntry(uint32(i), dc)
		if !dc {
			h.skips[i] = h.skipEntry(uint32(i))
		}
	}
	h.spec = append(h.spec, spec...)
	return nil
}

// An entry of fast is, from the lowest bit: 5 bits, how many bits to take; 7 bits, the zeros before a coefficient, or fastEnd
// if the block has no more; and in the upper half the coefficient. It is 0 where fastBits bits do not hold the coefficient, or
// where the code stands for zeros alone, or for nothing. A DC coefficient has no zeros before it, and is 0 where AC ones end.
const (
	fastTaken = 31
	fastRun   = 5
	fastEnd   = 127
	fastValue = 16
)

func (h *huffman) fastEntry(window uint32, dc bool) uint32 {
	e := h.lookup[window>>(fastBits-lookupBits)]
	length, run, size := int(e&0xff), uint32(e>>12), int(e>>8&15)
	switch {
	case length == 0 || length+size > fastBits || size == 0 && run == 15, dc && run > 0:
		return 0
	case size == 0:
		return fastEnd<<fastRun | uint32(length)
	}
	value := extend(int32(window>>(fastBits-length-size))&(1<<size-1), size)
	return uint32(value)<<fastValue | run<<fastRun | uint32(length+size)
}

// An entry of skips is, from the lowest bit: 5 bits, how many bits to take; and how many coefficients these have, zeros among them, to which
// skipEnd is added if the block has no more. It is 0 where fastBits bits hold none.
const (
	skipTaken  = 31
	skipPassed = 5
	skipEnd    = 128
)

func (h *huffman) skipEntry(window uint32) uint16 {
	taken, passed := 0, 0
	for {
		e := h.lookup[window<<taken&(1<<fastBits-1)>>(fastBits-lookupBits)]
		length, run, size := int(e&0xff), int(e>>12), int(e>>8&15)
		ends := size == 0 && run != 15
		if length == 0 || taken+length+size > fastBits || !ends && passed+run > 62 {
			return uint16(passed<<skipPassed | taken)
		}
		if taken += length + size; ends {
			return uint16((skipEnd+passed)<<skipPassed | taken)
		}
		passed += run + 1
	}
}

// symbol reads a code; ok is false if it is none. At least 32 bits are left afterwards if there were 48, or 57 before.
func (h *huffman) symbol(b *bits) (s uint8, ok bool) {
	if b.n < 32 {
		b.fill()
	}
	if e := h.lookup[b.acc>>(64-lookupBits)]; e != 0 {
		b.acc <<= e & 63
		b.n -= int(e & 63)
		return uint8(e >> 8), true
	}
	for length := lookupBits + 1; length <= 16; length++ {
		if code := int32(b.acc >> (64 - length)); code <= h.most[length] && code >= h.least[length] {
			b.acc <<= length
			b.n -= length
			return h.symbols[h.first[length]+code-h.least[length]], true
		}
	}
	return 0, false
}
