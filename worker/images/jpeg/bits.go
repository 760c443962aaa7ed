package jpeg

import "encoding/binary"

// bits reads an entropy-coded segment, most significant bit first. It ends at a marker, behind which zeros are read.
type bits struct {
	data []byte
	pos  int
	acc  uint64 // the next n bits are its highest ones
	n    int
	pad  int // how many of the last bits are no data
}

// start begins a segment.
func (b *bits) start(pos int) { b.pos, b.acc, b.n, b.pad = pos, 0, 0, 0 }

// overrun reports whether more bits were taken than the segment has.
func (b *bits) overrun() bool { return b.n < b.pad }

// fill makes n at least 57.
func (b *bits) fill() {
	if b.pos+8 <= len(b.data) {
		// Bits behind n may be in acc already; they are the same as those that come there again.
		if v := binary.BigEndian.Uint64(b.data[b.pos:]); (^v-ones)&v&highs == 0 { // no byte is 0xff
			b.acc |= v >> (b.n & 63)
			b.pos += (64 - b.n) >> 3
			b.n += (64 - b.n) &^ 7
			return
		}
	}
	for b.n <= 56 {
		var c byte
		switch rest := b.data[b.pos:]; {
		case len(rest) > 0 && rest[0] != 0xff:
			c = rest[0]
			b.pos++
		case len(rest) > 1 && rest[1] == 0:
			c = 0xff
			b.pos += 2
		default:
			b.pad += 8
		}
		b.acc |= uint64(c) << (56 - b.n)
		b.n += 8
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

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
