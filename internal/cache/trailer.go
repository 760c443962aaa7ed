package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A file is the value, and then a trailer:
//
//	CRC-32C of each block of the value, the last one shorter    4 bytes each
//	"penstkv1"                                                  8 bytes
//	size of the value                                           8 bytes
//	CRC-32C of the key and of all above in the trailer          4 bytes
//
// Numbers are little-endian. So a file tells its value's size, and that it is its key's.
const (
	block    = 1 << 20
	magic    = "penstkv1"
	tailSize = len(magic) + 8 + 4
)

// errDamaged says that a file is not what was written.
var errDamaged = errors.New("the file is damaged")

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once, by crc32

// blocks is how many blocks a value has.
func blocks(size int64) int64 { return (size + block - 1) / block }

// fileSize is the size of the file of a value.
func fileSize(size int64) int64 { return size + 4*blocks(size) + int64(tailSize) }

// valueSize is the size of a file's value; false if no file has that size.
func valueSize(file int64) (int64, bool) {
	rest := file - int64(tailSize)
	if rest < 0 {
		return 0, false
	}
	n := (rest + block + 3) / (block + 4)
	size := rest - 4*n
	return size, size >= 0 && fileSize(size) == file
}

// appendTail ends a trailer that has the sums.
func appendTail(sums []byte, key Key, size int64) []byte {
	sums = append(sums, magic...)
	sums = binary.LittleEndian.AppendUint64(sums, uint64(size))
	return binary.LittleEndian.AppendUint32(sums, sumOf(key, sums))
}

func sumOf(key Key, trailer []byte) uint32 {
	return crc32.Update(crc32.Checksum(key[:], castagnoli()), castagnoli(), trailer)
}

// parseTrailer returns the blocks' sums of a trailer, and its own.
func parseTrailer(trailer []byte, key Key, size int64) (sums []byte, sum uint32, err error) {
	if int64(len(trailer)) != fileSize(size)-size {
		return nil, 0, fmt.Errorf("%w: a trailer of %d bytes for a value of %d", errDamaged, len(trailer), size)
	}
	body, last := trailer[:len(trailer)-4], trailer[len(trailer)-4:]
	if sum = sumOf(key, body); sum != binary.LittleEndian.Uint32(last) {
		return nil, 0, fmt.Errorf("%w: its trailer's checksum is another one", errDamaged)
	}
	tail := body[len(body)-8-len(magic):]
	if string(tail[:len(magic)]) != magic || binary.LittleEndian.Uint64(tail[len(magic):]) != uint64(size) {
		return nil, 0, fmt.Errorf("%w: its trailer is another value's", errDamaged)
	}
	return body[:len(body)-len(tail)], sum, nil
}
