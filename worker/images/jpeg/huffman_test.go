package jpeg

import "testing"

// FuzzTables compares what entries of tables say with what their bits are code by code.
func FuzzTables(f *testing.F) {
	f.Add([]byte("\x00\x02\x01\x03\x03\x02\x04\x03\x05\x05\x04\x04\x00\x00\x01\x7d"),
		[]byte("\x01\x02\x03\x00\x04\x11\x05\x12\x21\x31\x41\x06\x13\x51\x61\x07\xf0"))
	f.Add([]byte("\x01\x01\x01\x01"), []byte("\xf0\x07\x00\x18"))
	f.Add([]byte("\x01\x00\x03"), []byte("\x00\x01\xf1\x08"))
	f.Add([]byte("\x00\x01\x05\x01\x01\x01\x01\x01\x01"), []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b"))
	f.Fuzz(func(t *testing.T, counts, symbols []byte) {
		var spec [16 + 256]byte
		copy(spec[:16], counts)
		copy(spec[16:], symbols)
		n := 0
		for _, count := range spec[:16] {
			n += int(count)
		}
		var dc dcTable
		var ac acTable
		if n > 256 || dc.set(spec[:16+n]) != nil || ac.set(spec[:16+n]) != nil {
			return
		}
		dc.expand()
		ac.expand()
		for i, e := range dc.values {
			size, v, taken := firstCode(&dc.huffman, uint32(i)<<(32-valueBits))
			held := taken > 0 && taken <= valueBits && size < 16
			if got := int(e & takenMask); got > 0 && (!held || got != taken || int32(e)>>valueShift != v) {
				t.Fatalf("%0*b: value %d of %d bits; it is %d of %d", valueBits, i, int32(e)>>valueShift, got, v, taken)
			}
		}
		for i := range ac.pairs {
			checkPair(t, &ac, uint32(i)<<(32-pairBits))
			checkSkip(t, &ac, uint32(i)<<(32-pairBits))
		}
	})
}

// firstCode is the code that a window begins with, and the coefficient behind it; they take no bits if there is none.
func firstCode(h *huffman, window uint32) (symbol uint8, v int32, taken int) {
	b := bits{data: make([]byte, padding+8), acc: uint64(window) << 32, n: 32, pos: 4}
	before := b.left()
	symbol, ok := h.symbol(&b)
	if !ok {
		return 0, 0, 0
	}
	v = b.extended(int(symbol & 15))
	return symbol, v, before - b.left()
}

// checkPair puts what an entry of pairs says into a block, and what its bits say into another.
func checkPair(t *testing.T, table *acTable, window uint32) {
	t.Helper()
	e := table.pairs[window>>(32-pairBits)]
	if e == pairNone {
		return
	}
	var got, want, ones [64]int32
	for k := range ones {
		ones[k] = 1
	}
	count, ends, taken, k, ended := int(e>>pairCount&127), false, 0, 0, false
	if ends = count > pairEnd; ends {
		count -= pairEnd
	}
	put(&got, &ones, e, 0, count)
	for taken < int(e&takenMask) && !ended {
		symbol, v, n := firstCode(&table.huffman, window<<taken)
		if taken += n; symbol&15 == 0 && symbol != 0xf0 {
			ended = true
			break
		}
		k += int(symbol >> 4)
		want[zigzag[k]] = v
		k++
	}
	if taken != int(e&takenMask) || taken > pairBits || ended != ends || got != want || max(k, 1) != count {
		t.Fatalf("%032b: entry %#x has %v to %d, its %d bits %v to %d", window, e, got, count, taken, want, k)
	}
}

// checkSkip counts the coefficients of an entry's bits.
func checkSkip(t *testing.T, table *acTable, window uint32) {
	t.Helper()
	e := table.skips[window>>(32-pairBits)]
	if e == skipNone {
		return
	}
	taken, passed := 0, 0
	for taken < int(e&takenMask) && passed < skipEnd {
		symbol, _, n := firstCode(&table.huffman, window<<taken)
		if taken += n; symbol&15 == 0 && symbol != 0xf0 {
			passed += skipEnd
		} else {
			passed += int(symbol>>4) + 1
		}
	}
	if taken != int(e&takenMask) || taken > pairBits || passed != int(e>>skipCount) {
		t.Fatalf("%032b: entry %#x, its %d bits pass %d", window, e, taken, passed)
	}
}
