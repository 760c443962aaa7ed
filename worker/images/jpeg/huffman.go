package jpeg

import (
	"bytes"
	"cmp"
	"errors"
)

// lookupBits is the length up to which codes are found at once.
const lookupBits = 9

// huffman is a table of codes.
type huffman struct {
	spec    []byte                  // the segment that it was made of: 16 counts and the symbols
	lookup  [1 << lookupBits]uint16 // symbol<<8 | length; 0 for longer codes
	least   [17]int32               // least code of each length
	most    [17]int32               // greatest code of each length, -1 if it has none
	first   [17]int32               // index of its symbol
	symbols [256]uint8

	expanded bool // whether what baseline scans look up was made of it
}

var errTable = errors.New("a Huffman table is malformed")

// set makes the table of a DHT segment's part; one that is the same as before stays.
func (h *huffman) set(spec []byte) error {
	if bytes.Equal(h.spec, spec) {
		return nil
	}
	h.spec, h.expanded = h.spec[:0], false // until it is whole
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
	h.spec = append(h.spec, spec...)
	return nil
}

// within is what the highest n bits of a window begin with: a code, and the coefficient that the size in its symbol
// belongs to. They take no bits if n do not hold them.
func (h *huffman) within(window uint32, n int) (symbol uint8, value int32, taken int) {
	e := h.lookup[window>>(32-lookupBits)]
	length, size := int(e&0xff), int(e>>8&15)
	if length == 0 || length+size > n {
		return 0, 0, 0
	}
	return uint8(e >> 8), extend(int32(window<<length>>(32-size)), size), length + size
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

// dcTable is a table of DC coefficients.
type dcTable struct {
	huffman
	values [1 << valueBits]uint32
}

// An entry of values is, from the lowest bit: 6 bits, how many bits to take; and in the upper half the value. It is 0
// where valueBits bits do not hold one.
const (
	valueBits  = 10
	valueShift = 16
	takenMask  = 63
)

// expand makes values, if that was not done yet.
func (t *dcTable) expand() {
	for i := 0; !t.expanded && i < len(t.values); i++ {
		t.values[i] = 0
		if size, value, taken := t.within(uint32(i)<<(32-valueBits), valueBits); size < 16 {
			t.values[i] = uint32(value)<<valueShift | uint32(taken)
		}
	}
	t.expanded = true
}

// acTable is a table of AC coefficients.
type acTable struct {
	huffman
	pairs [1 << pairBits]uint32
	skips [1 << pairBits]uint16
}

// An entry of pairs is, from the lowest bit: 6 bits, how many bits to take; 7 bits, how many coefficients these stand
// for, zeros among them, to which pairEnd is added if the block has no more; 4 bits, the zeros before the first that
// may not be 0; 7 bits for the last of those that the entry stands for, and 8 bits for the first one that may not be 0,
// which counts if both are one. It is pairNone where pairBits bits hold none.
const (
	pairBits  = 11
	pairCount = 6
	pairEnd   = 63 + maxPair // more than any place that an entry without it leads to
	pairZeros = 13
	pairLast  = 17
	pairFirst = 24
	pairNone  = 63 << pairCount // leads behind the block
	maxPair   = 31              // coefficients of an entry
)

// An entry of skips is, from the lowest bit: 6 bits, how many bits to take; and how many coefficients these stand for,
// zeros among them, to which skipEnd is added if the block has no more. It is skipNone where pairBits bits hold none.
const (
	skipCount = 6
	skipEnd   = 256
	skipNone  = 128 << skipCount
	maxSkip   = 63 // coefficients of an entry
)

// expand makes pairs and skips, if that was not done yet.
func (t *acTable) expand() {
	if !t.expanded {
		t.fill(0, pairBits, prefix{})
		t.expanded = true
	}
}

// prefix is what the first bits of a window stand for: entries of both tables, which are 0 if these are none.
type prefix struct {
	pair  uint32
	skip  uint16
	codes int // that pair stands for, but for those that end a block; more than 2: it lacks some
}

// fill makes the entries of the windows that begin as the at-th does, up to the lowest bits, as many as left.
func (t *acTable) fill(at uint32, left int, p prefix) {
	for end := at + 1<<left; at < end; {
		count, value, taken := t.step(at<<(32-left), left)
		next := at + 1<<(left-taken)
		switch {
		case taken == 0 || int(p.skip>>skipCount)+count > maxSkip:
			t.pairs[at], t.skips[at] = cmp.Or(p.pair, pairNone), cmp.Or(p.skip, skipNone)
			next = at + 1
		case count > 0:
			t.fill(at, left-taken, p.with(count, value, taken))
		default:
			last := p.ended(taken)
			for i := at; i < next; i++ {
				t.pairs[i], t.skips[i] = cmp.Or(last.pair, pairNone), last.skip
			}
		}
		at = next
	}
}

// step is a code, and the coefficient behind it, of the highest n bits of a window: how many coefficients they stand
// for, none if they end the block. They take no bits if n do not hold them.
func (t *acTable) step(window uint32, n int) (count int, value int32, taken int) {
	symbol, value, taken := t.within(window, n)
	if symbol&15 == 0 && symbol != 0xf0 {
		return 0, 0, taken
	}
	return int(symbol>>4) + 1, value, taken
}

// with adds a step.
func (p prefix) with(count int, value int32, taken int) prefix {
	more := uint32(count<<pairCount | taken)
	p.skip += uint16(count<<skipCount | taken)
	switch total := int(p.pair>>pairCount&127) + count; {
	case p.codes == 0 && value == value<<24>>24:
		p.pair = uint32(value)<<pairFirst | uint32(count-1)<<pairZeros | more
		p.codes = 1
	case p.codes == 1 && value == value<<25>>25 && total <= maxPair:
		p.pair += uint32(value)&127<<pairLast + more
		p.codes = 2
	default:
		p.codes = 3
	}
	return p
}

// ended adds the block's end.
func (p prefix) ended(taken int) prefix {
	p.skip += uint16(skipEnd<<skipCount | taken)
	if p.codes == 0 {
		p.pair = 1 << pairCount
	}
	if p.codes <= 2 {
		p.pair += uint32(pairEnd<<pairCount | taken)
	}
	return p
}
