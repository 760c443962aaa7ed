package encode

import (
	"encoding/binary"
	"math/bits"
)

// appendHybrid encodes numbers of so many bits as runs of one value and as packed bits.
func appendHybrid[T uint8 | uint32](out []byte, values []T, width int) []byte {
	if width == 0 {
		return binary.AppendUvarint(out, uint64(len(values))<<1)
	}
	least := max(8, 40/width) // as many of a value take no more bytes by themselves
	for len(values) > 0 {
		if n := run(values, len(values)); n >= least || n == len(values) {
			out = binary.AppendUvarint(out, uint64(n)<<1)
			for b := 0; b < width; b += 8 {
				out = append(out, byte(values[0]>>b))
			}
			values = values[n:]
			continue
		}
		n := 8
		for n < len(values) && run(values[n:], least) < least {
			n += 8
		}
		out = binary.AppendUvarint(out, uint64(n/8)<<1|1)
		packed := min(n, len(values))
		out = appendPacked(out, values[:packed], width)
		values = values[packed:]
	}
	return out
}

// run is how many values at the beginning are the same, at most limit.
func run[T uint8 | uint32](values []T, limit int) int {
	values = values[:min(limit, len(values))]
	n := 1
	if b, ok := any(values).([]uint8); ok { // eight at a time, since levels of what is missing are many
		first := uint64(b[0]) * 0x0101010101010101
		for n = 0; n+8 <= len(b); n += 8 {
			if differ := binary.LittleEndian.Uint64(b[n:]) ^ first; differ != 0 {
				return n + bits.TrailingZeros64(differ)/8
			}
		}
	}
	for ; n < len(values); n++ {
		if values[n] != values[0] {
			break
		}
	}
	return n
}

// appendPacked appends values of so many bits, to whole bytes for each 8 values.
func appendPacked[T uint8 | uint32](out []byte, values []T, width int) []byte {
	end := len(out) + (len(values)+7)/8*width
	if b, ok := any(values).([]uint8); ok && width == 1 {
		for ; len(b) >= 8; b = b[8:] { // the last bits of eight bytes, side by side
			out = append(out, byte(binary.LittleEndian.Uint64(b)*0x0102040810204080>>56))
		}
		values = values[len(values)-len(b):]
	}
	var acc uint64
	have := 0
	for _, v := range values {
		acc |= uint64(v) << have
		have += width
		for have >= 8 {
			out = append(out, byte(acc))
			acc >>= 8
			have -= 8
		}
	}
	if have > 0 {
		out = append(out, byte(acc))
	}
	for len(out) < end {
		out = append(out, 0)
	}
	return out
}

// widthOf is how many bits numbers up to a highest one take.
func widthOf(highest uint32) int { return bits.Len32(highest) }
