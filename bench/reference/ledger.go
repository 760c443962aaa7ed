package reference

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
)

// Record is one row that was, or should be, handed to a trainer.
type Record struct {
	File int32 // index of the file in the listing
	Row  int64 // of the file
	Hash uint64
}

// checksum is a record's share of the sum over all records, which does not depend on their order.
func (r Record) checksum() uint64 {
	return avalanche(avalanche(uint64(r.File)*prime1+uint64(r.Row)) ^ r.Hash)
}

// A ledger file is the magic, the records (file, row, hash, little endian), and a trailer: a record with file -1 that
// bears the number of records and their CRC-32C.
const (
	ledgerMagic = "PENSTOCK LEDGER1"
	recordSize  = 4 + 8 + 8
	trailerFile = -1
	ledgerChunk = 4096 * recordSize
)

// ErrLedger is wrapped by the errors about a ledger that is cut off or damaged.
var ErrLedger = errors.New("the ledger is damaged")

// Ledger is a trainer's record of the rows that it was handed, in a file.
type Ledger struct {
	path    string
	file    *os.File
	buf     []byte
	crc     uint32
	records int64
	batches *Records // nil until the first batch
}

// CreateLedger begins a ledger in a new file.
func CreateLedger(path string) (*Ledger, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("reference: create ledger: %w", err)
	}
	l := &Ledger{path: path, file: f, buf: make([]byte, 0, ledgerChunk)}
	if _, err := f.WriteString(ledgerMagic); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("reference: write ledger %s: %w", path, err)
	}
	return l, nil
}

// Add writes down one row.
func (l *Ledger) Add(file int32, row int64, hash uint64) error {
	if len(l.buf) == cap(l.buf) {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.buf = appendRecord(l.buf, Record{file, row, hash})
	l.records++
	return nil
}

// AddBatch writes down the first rows of a batch, all that are not padding. Batches of one ledger have one schema.
func (l *Ledger) AddBatch(batch arrow.Record, rows int) error {
	if l.batches == nil {
		var err error
		if l.batches, err = NewRecords(batch.Schema()); err != nil {
			return err
		}
	}
	valid := batch.NewSlice(0, int64(rows))
	defer valid.Release()
	return l.batches.Each(valid, l.Add)
}

// Close writes the trailer, without which a ledger is not valid.
func (l *Ledger) Close() error {
	err := l.flush()
	if err == nil {
		l.buf = appendRecord(l.buf, Record{trailerFile, l.records, uint64(l.crc)})
		err = l.flush()
	}
	if err := errors.Join(err, l.file.Close()); err != nil {
		return fmt.Errorf("reference: close ledger %s: %w", l.path, err)
	}
	return nil
}

func (l *Ledger) flush() error {
	l.crc = crc32.Update(l.crc, crc32.MakeTable(crc32.Castagnoli), l.buf)
	if _, err := l.file.Write(l.buf); err != nil {
		return fmt.Errorf("reference: write ledger %s: %w", l.path, err)
	}
	l.buf = l.buf[:0]
	return nil
}

func appendRecord(b []byte, r Record) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(r.File))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Row))
	return binary.LittleEndian.AppendUint64(b, r.Hash)
}

// ReadLedger calls each with the records of a ledger. If the ledger turns out to be cut off or damaged, which only its
// end shows, it fails with ErrLedger.
func ReadLedger(path string, each func(Record)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reference: open ledger: %w", err)
	}
	defer f.Close()
	if err := readLedger(bufio.NewReaderSize(f, 1<<18), each); err != nil {
		return fmt.Errorf("reference: read ledger %s: %w", path, err)
	}
	return nil
}

func readLedger(r io.Reader, each func(Record)) error {
	var b [recordSize]byte
	if _, err := io.ReadFull(r, b[:len(ledgerMagic)]); err != nil || string(b[:len(ledgerMagic)]) != ledgerMagic {
		return fmt.Errorf("%w: does not begin as ledgers do", ErrLedger)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	crc, n := uint32(0), int64(0)
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return fmt.Errorf("%w: cut off after %d records (did its trainer end early?): %w", ErrLedger, n, err)
		}
		rec := Record{
			File: int32(binary.LittleEndian.Uint32(b[:])),
			Row:  int64(binary.LittleEndian.Uint64(b[4:])),
			Hash: binary.LittleEndian.Uint64(b[12:]),
		}
		if rec.File == trailerFile {
			if rec.Row != n || rec.Hash != uint64(crc) {
				return fmt.Errorf("%w: %d records and checksum %08x, but its trailer says %d and %08x",
					ErrLedger, n, crc, rec.Row, rec.Hash)
			}
			if _, err := io.ReadFull(r, b[:1]); err != io.EOF {
				return fmt.Errorf("%w: goes on after its trailer", ErrLedger)
			}
			return nil
		}
		crc = crc32.Update(crc, table, b[:])
		n++
		each(rec)
	}
}
