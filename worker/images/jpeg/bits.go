package jpeg

import (
	"bytes"
	"encoding/binary"
)

// bits reads an entropy-coded segment, most significant bit first. Behind its end zeros are read.
type bits struct {
	data []byte // the segment without the zeros that are stuffed behind each 0xff, and behind it `padding` zeros
	pos  int    // of the next byte to come to acc, or to come once more: it may lie behind the end
	acc  uint64 // the next n bits are its highest ones
	n    int    // up to 63
}

// padding is how many zeros stand behind a segment, so that eight bytes can be loaded at each of its own.
const padding = 8

// start begins the segment at a place of a file, and returns where it ends: at a marker, or with the file.
func (b *bits) start(file []byte, pos int) (end int) {
	b.data = grow(b.data, len(file)-pos+padding)[:0]
	for rest := file[pos:]; ; {
		n := bytes.IndexByte(rest, 0xff)
		if n < 0 {
			n = len(rest)
		}
		stuffed := n+1 < len(rest) && rest[n+1] == 0
		if stuffed {
			n++
		}
		b.data = append(b.data, rest[:n]...)
		if rest = rest[n:]; stuffed {
			rest = rest[1:]
			continue
		}
		b.data = append(b.data, make([]byte, padding)...)
		b.pos, b.acc, b.n = 0, 0, 0
		return len(file) - len(rest)
	}
}

// left is how many bits the segment has that were not taken; it is negative if more were taken.
func (b *bits) left() int { return 8*(len(b.data)-padding-b.pos) + b.n }

// filled is how many bits there are at least after filling.
const filled = 56

// fill makes n at least filled.
func (b *bits) fill() { b.acc, b.n = b.more(b.acc, b.n) }

// more is fill for loops that keep acc and n in registers. Bits behind n may be in acc already: they are the same as
// those that come there again.
func (b *bits) more(acc uint64, n int) (uint64, int) {
	if at := b.pos; at >= 0 && at <= len(b.data)-8 {
		acc |= binary.BigEndian.Uint64(b.data[at:]) >> (n & 63)
	}
	b.pos += (63 - n) >> 3
	return acc, n | filled
}

// take returns the next k bits, of 0 to 16.
func (b *bits) take(k int) int32 {
	if b.n < 32 {
		b.fill()
	}
	v := int32(b.acc >> 1 >> (63 - k))
	b.acc <<= k
	b.n -= k
	return v
}

// extended returns the next k bits as a signed number: those that begin with 0 are negative.
func (b *bits) extended(k int) int32 { return extend(b.take(k), k) }

func extend(v int32, k int) int32 {
	if k > 0 && v < 1<<(k-1) {
		v += -1<<k + 1
	}
	return v
}
