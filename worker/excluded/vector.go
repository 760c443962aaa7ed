package excluded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/RoaringBitmap/roaring/v2"
)

// A deletion vector of Delta Lake and of Iceberg is the same in a file: its length and behind it a checksum, both big
// endian, around a magic number and bitmaps of 32 bits, each behind the upper bits of its rows.
const (
	frameBytes = 4 + 4
	magic      = 1681511377
	// nativeMagic is that of a form that Delta names, and nobody writes.
	nativeMagic = 1681511376
	// leastPart is the least that a bitmap takes, with what stands in front of it.
	leastPart = 4 + 8
)

const (
	containerRows  = 1 << 16 // that one container of a bitmap may have
	containerBytes = 96      // of memory that one takes, beside what it has in the file
	leastContainer = 6       // bytes that one takes in the file
	partBytes      = 256     // of memory that a bitmap takes
)

var errCut = errors.New("it is cut short")

// unframe is a vector without its length and checksum, which it checks.
func unframe(data []byte) ([]byte, error) {
	if len(data) < frameBytes {
		return nil, errCut
	}
	said := int64(binary.BigEndian.Uint32(data))
	if said != int64(len(data)-frameBytes) {
		return nil, fmt.Errorf("it says that it has %d bytes, and the table says %d", said, len(data)-frameBytes)
	}
	vector, sum := data[4:len(data)-4], binary.BigEndian.Uint32(data[len(data)-4:])
	if got := crc32.ChecksumIEEE(vector); got != sum {
		return nil, fmt.Errorf("its checksum is %08x, and that of its bytes %08x", sum, got)
	}
	return vector, nil
}

// parseVector reads a vector of which the rows stay where they are in data.
func parseVector(data []byte) (*Rows, error) {
	if len(data) < 12 {
		return nil, errCut
	}
	switch got := binary.LittleEndian.Uint32(data); got {
	case magic:
	case nativeMagic:
		return nil, errors.New("it is of the native form, which is not read: have the table's writer write it anew")
	default:
		return nil, fmt.Errorf("it begins with %08x, which is no deletion vector", got)
	}
	count, rest := binary.LittleEndian.Uint64(data[4:]), data[12:]
	if count > uint64(len(rest)/leastPart) {
		return nil, errCut
	}
	rows := &Rows{parts: make([]part, 0, count), size: int64(len(data))}
	for i := range count {
		if len(rest) < leastPart {
			return nil, errCut
		}
		p := part{high: binary.LittleEndian.Uint32(rest), low: roaring.New()}
		if i > 0 && p.high <= rows.parts[i-1].high {
			return nil, errors.New("its bitmaps do not ascend")
		}
		n, err := p.low.FromBuffer(rest[4:])
		if err == nil {
			err = p.low.Validate()
		}
		if err != nil {
			return nil, fmt.Errorf("bitmap %d: %w", i, err)
		}
		if rest = rest[4+n:]; p.low.IsEmpty() {
			return nil, fmt.Errorf("bitmap %d has no rows", i)
		}
		rows.parts = append(rows.parts, p)
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow its last bitmap", len(rest))
	}
	rows.size += beside(rows.parts)
	return rows, nil
}

// beside is what bitmaps take beside the bytes that they lie in.
func beside(parts []part) (bytes int64) {
	for _, p := range parts {
		bytes += partBytes + containerBytes*int64(p.low.Stats().Containers)
	}
	return bytes
}

// mostBeside is the most that a vector of so many bytes takes beside these, if it is that of a file with so many rows.
func mostBeside(bytes, rows int64) int64 {
	return min(rows/containerRows+1, bytes/leastContainer)*containerBytes + (rows>>32+1)*partBytes
}
