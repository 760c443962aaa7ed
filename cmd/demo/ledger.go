package demo

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"math"
	"os"
)

// record is a row that was handed to a trainer: its place, and the checksum of that and of its values.
type record struct {
	file     int32 // its index in the listing
	row      int64 // of the file
	checksum uint64
}

const recordSize = 4 + 8 + 8

// ledger is a trainer's list of the rows that it was handed, in a file.
type ledger struct {
	file *os.File
	out  *bufio.Writer
	buf  []byte
}

func createLedger(path string) (*ledger, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("demo: create a ledger: %w", err)
	}
	return &ledger{file: f, out: bufio.NewWriterSize(f, 1<<16)}, nil
}

func (l *ledger) add(r record) error {
	l.buf = binary.LittleEndian.AppendUint32(l.buf[:0], uint32(r.file))
	l.buf = binary.LittleEndian.AppendUint64(l.buf, uint64(r.row))
	l.buf = binary.LittleEndian.AppendUint64(l.buf, r.checksum)
	if _, err := l.out.Write(l.buf); err != nil {
		return fmt.Errorf("demo: write the ledger: %w", err)
	}
	return nil
}

func (l *ledger) close() error {
	if err := errors.Join(l.out.Flush(), l.file.Close()); err != nil {
		return fmt.Errorf("demo: close the ledger: %w", err)
	}
	return nil
}

// readLedger calls each with the records of a ledger.
func readLedger(path string, each func(record)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("demo: open a ledger: %w", err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<18)
	for {
		var b [recordSize]byte
		if _, err := io.ReadFull(in, b[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("demo: read the ledger %s: %w", path, err)
		}
		each(record{
			file:     int32(binary.LittleEndian.Uint32(b[:])),
			row:      int64(binary.LittleEndian.Uint64(b[4:])),
			checksum: binary.LittleEndian.Uint64(b[12:]),
		})
	}
}

// hasher makes the checksum of a row of its place and its values, which come in one order wherever they are from.
type hasher struct {
	table *crc64.Table
	buf   []byte
}

func newHasher() *hasher { return &hasher{table: crc64.MakeTable(crc64.ECMA)} }

func (h *hasher) begin(file int32, row int64) {
	h.buf = binary.LittleEndian.AppendUint32(h.buf[:0], uint32(file))
	h.buf = binary.LittleEndian.AppendUint64(h.buf, uint64(row))
}

func (h *hasher) label(x int32) { h.buf = binary.LittleEndian.AppendUint32(h.buf, uint32(x)) }

func (h *hasher) number(x float32) {
	h.buf = binary.LittleEndian.AppendUint32(h.buf, math.Float32bits(x))
}

func (h *hasher) ids(xs []int64) {
	h.buf = binary.LittleEndian.AppendUint32(h.buf, uint32(len(xs)))
	for _, x := range xs {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, uint64(x))
	}
}

func (h *hasher) sum() uint64 { return crc64.Checksum(h.buf, h.table) }
