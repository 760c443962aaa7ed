package columns

import (
	"bytes"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// asStored returns the size bytes of a page where they lie in src, if its codec left them as they were: that is what codecs do with
// what they cannot make smaller. Whatever else src is, damaged or too long for it, is left to decompress.
func asStored(codec int32, src []byte, size int) (page []byte, ok bool) {
	switch codec {
	case codecNone:
		return src, true
	case codecSnappy:
		return snappyStored(src, size)
	case codecZstd:
		return zstdStored(src, size)
	}
	return nil, false
}

// snappyStored finds a page that is one literal, behind what its writers put in front of one. They cut longer pages at 64 KiB.
func snappyStored(src []byte, size int) ([]byte, bool) {
	front := binary.AppendUvarint(make([]byte, 0, 8), uint64(size))
	switch n := size - 1; {
	case n < 0 || n >= 1<<16:
		return nil, false
	case n < snappyLong:
		front = append(front, byte(n)<<2)
	case n < 1<<8:
		front = append(front, snappyLong<<2, byte(n))
	default:
		front = append(front, (snappyLong+1)<<2, byte(n), byte(n>>8))
	}
	page, ok := bytes.CutPrefix(src, front)
	return page, ok && len(page) == size
}

// A zstd frame's descriptor (RFC 8878, section 3.1.1.1). Its topmost bits say how long the field of the page's size is.
const (
	zstdSingle   = 1 << 5 // there is such a field, and none of a window's size
	zstdChecksum = 1 << 2
)

// zstdStored finds a page that is a frame of one raw block, behind the headers that its writers put there, and checks its checksum.
// They cut longer pages at 64 or 128 KiB.
func zstdStored(src []byte, size int) ([]byte, bool) {
	if len(src) < 5 || size > 128<<10 {
		return nil, false
	}
	front := append(make([]byte, 0, 16), 0x28, 0xB5, 0x2F, 0xFD, zstdSingle|src[4]&zstdChecksum)
	switch {
	case size < 1<<8:
		front = append(front, byte(size))
	case size < 1<<16+1<<8:
		front[4] |= 1 << 6
		front = binary.LittleEndian.AppendUint16(front, uint16(size-1<<8))
	default:
		front[4] |= 2 << 6
		front = binary.LittleEndian.AppendUint32(front, uint32(size))
	}
	front = append(front, byte(size<<3|1), byte(size>>5), byte(size>>13)) // the last block, raw
	page, ok := bytes.CutPrefix(src, front)
	if !ok || len(page) < size {
		return nil, false
	}
	page, sum := page[:size:size], page[size:]
	if src[4]&zstdChecksum == 0 {
		return page, len(sum) == 0
	}
	return page, len(sum) == 4 && binary.LittleEndian.Uint32(sum) == uint32(xxhash.Sum64(page))
}
