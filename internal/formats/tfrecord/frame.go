package tfrecord

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// A record is its length, the checksum of this, as many bytes, and their checksum.
// https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
const (
	lengthBytes = 8
	sumBytes    = 4
	headBytes   = lengthBytes + sumBytes
)

// masked is a checksum as records have it: those of data that have checksums within would be of little use.
func masked(data []byte) uint32 {
	return bits.RotateLeft32(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)), 17) + 0xa282ead8
}

func sumFits(data, sum []byte) bool { return masked(data) == binary.LittleEndian.Uint32(sum) }

var (
	errLength = errors.New("no record of TFRecord begins here: the checksum of its length is wrong")
	errZLIB   = errors.New("it is compressed by ZLIB, which is not read: write it with GZIP")
	errData   = errors.New("the checksum of its data is wrong: the file is damaged")
	errFrame  = errors.New("it is no record of TFRecord")
)

// Cut measures the record that data begins with; see records.Opened. The checksum of its data is left to Payload.
func (o *Opened) Cut(data []byte, at int64, end bool) (n int, row bool, err error) {
	if len(data) < headBytes {
		return 0, false, nil
	}
	if !sumFits(data[:lengthBytes], data[lengthBytes:headBytes]) {
		if at == 0 && data[0]&0x0f == 8 && binary.BigEndian.Uint16(data)%31 == 0 {
			return 0, false, errZLIB
		}
		return 0, false, errLength
	}
	size := binary.LittleEndian.Uint64(data)
	if size > 1<<48 {
		return 0, false, fmt.Errorf("a record of %d bytes, which no file has", size)
	}
	if size+headBytes+sumBytes > uint64(len(data)) {
		return 0, false, nil
	}
	return int(size) + headBytes + sumBytes, true, nil
}

// Payload is what a record holds, as it was cut.
func Payload(record []byte) ([]byte, error) {
	n := len(record) - sumBytes
	if n < headBytes {
		return nil, errFrame
	}
	data := record[headBytes:n]
	if !sumFits(data, record[n:]) {
		return nil, errData
	}
	return data, nil
}
