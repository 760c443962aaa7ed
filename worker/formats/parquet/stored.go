package parquet

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// asStored returns the size bytes of a page where they lie in src, if its codec left them as they were: that is what
// codecs do with what they cannot make smaller. Long pages lie there in parts, each behind a header: they are moved
// together if src may be changed. Whatever else src is, damaged or too long for it, is left to decompress.
func (c *codecs) asStored(codec int32, src []byte, size int, movable bool) (page []byte, ok bool, err error) {
	parts := c.parts[:0]
	var sum []byte
	switch codec {
	case codecNone:
		return src, true, nil
	case codecSnappy:
		parts, ok = snappyParts(parts, src, size)
	case codecZstd:
		parts, sum, ok = zstdParts(parts, src, size)
	}
	c.parts = parts
	if !ok || !movable && len(parts) > 1 {
		return nil, false, nil
	}
	page = join(parts, size)
	if len(sum) > 0 && binary.LittleEndian.Uint32(sum) != uint32(xxhash.Sum64(page)) {
		return nil, false, fmt.Errorf("decompress %s: %w", codecName(codec), zstd.ErrCRCMismatch)
	}
	return page, true, nil
}

// join moves parts of a page, which lie one behind the other, to the end of the first one.
func join(parts [][]byte, size int) []byte {
	page := parts[0]
	for _, part := range parts[1:] {
		n := len(page)
		page = page[:n+len(part)]
		copy(page[n:], part)
	}
	return page[:size:size]
}

// maxParts bounds those of a page, which writers cut at 64 KiB or more.
func maxParts(size int) int { return size>>16 + 2 }

// snappyParts finds the parts of a page that has only literals.
func snappyParts(parts [][]byte, src []byte, size int) ([][]byte, bool) {
	length, front := binary.Uvarint(src)
	if front <= 0 || length != uint64(size) {
		return parts, false
	}
	total := 0
	for at := front; at < len(src); {
		if src[at]&3 != snappyLiteral || len(parts) == maxParts(size) {
			return parts, false
		}
		from, n, ok := snappyLiteralAt(src, at)
		if !ok {
			return parts, false
		}
		at = from + n
		parts, total = append(parts, src[from:at]), total+n
	}
	return parts, size > 0 && total == size
}

// A zstd block (RFC 8878, section 3.1.1.2) stands behind three bytes: whether it is the last one, its type and its
// size.
const (
	zstdHeader = 3
	zstdRaw    = 0
	zstdBlock  = 128 << 10 // the most that one has
)

// zstdParts finds the parts of a page that is one frame of raw blocks, and the frame's checksum, if it has one.
func zstdParts(parts [][]byte, src []byte, size int) (_ [][]byte, sum []byte, ok bool) {
	var frame zstd.Header
	src, err := frame.DecodeAndStrip(src)
	switch {
	case err != nil, frame.Skippable, frame.DictionaryID != 0, frame.HasFCS && frame.FrameContentSize != uint64(size):
		return parts, nil, false
	case frame.WindowSize > zstd.MaxWindowSize:
		return parts, nil, false
	}
	total, most := 0, zstdBlock
	if !frame.SingleSegment {
		most = min(most, int(frame.WindowSize))
	}
	for last := false; !last; {
		if len(src) < zstdHeader || len(parts) == maxParts(size) {
			return parts, nil, false
		}
		header := int(src[0]) | int(src[1])<<8 | int(src[2])<<16
		n := header >> 3
		if src = src[zstdHeader:]; header>>1&3 != zstdRaw || n > min(most, len(src)) {
			return parts, nil, false
		}
		parts, src, total = append(parts, src[:n]), src[n:], total+n
		last = header&1 == 1
	}
	if frame.HasCheckSum {
		ok = len(src) == 4
	} else {
		ok = len(src) == 0
	}
	return parts, src, ok && size > 0 && total == size
}
