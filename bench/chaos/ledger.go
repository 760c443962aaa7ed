package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// record is one row that was handed over.
type record struct {
	epoch, step uint32
	file        int32
	row         int64
	sums        sums
}

const recordSize = 4 + 4 + 4 + 8 + 8 + 4 + 4 + 8 + 8

// ledger takes a trainer's records, in a file.
type ledger struct {
	file    *os.File
	buf     []byte
	records int64
}

func createLedger(path string) (*ledger, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("chaos: ledger: %w", err)
	}
	return &ledger{file: f}, nil
}

func (l *ledger) add(r record) {
	b := l.buf
	b = binary.LittleEndian.AppendUint32(b, r.epoch)
	b = binary.LittleEndian.AppendUint32(b, r.step)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.file))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.row))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.sums.key))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(r.sums.x))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.sums.ids))
	b = binary.LittleEndian.AppendUint64(b, uint64(r.sums.idsXor))
	l.buf = binary.LittleEndian.AppendUint64(b, uint64(r.sums.blobMD5))
	l.records++
}

// flush gives the records to the system, which keeps them when this process is killed.
func (l *ledger) flush() error {
	if _, err := l.file.Write(l.buf); err != nil {
		return fmt.Errorf("chaos: ledger: %w", err)
	}
	l.buf = l.buf[:0]
	return nil
}

func (l *ledger) close() error { return errors.Join(l.flush(), l.file.Close()) }

// segment is what counts of one trainer's ledger: its first records. Later ones were handed over after the checkpoint
// that the job went back to.
type segment struct {
	Path    string
	Rank    int
	Records int64
	// Attempt and Recorded are of a rank whose job goes on without states: of its first records the master must know,
	// so that no later rank gets them.
	Attempt  int
	Recorded int64
}

// each calls f with the segment's records.
func (s segment) each(f func(record) error) error {
	file, err := os.Open(s.Path)
	if err != nil {
		return fmt.Errorf("chaos: ledger: %w", err)
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<18)
	b := make([]byte, recordSize)
	for i := range s.Records {
		if _, err := io.ReadFull(in, b); err != nil {
			return fmt.Errorf("chaos: ledger %s: record %d of %d: %w", s.Path, i, s.Records, err)
		}
		if err := f(decodeRecord(b)); err != nil {
			return err
		}
	}
	return nil
}

func decodeRecord(b []byte) record {
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	return record{
		epoch: u32(b), step: u32(b[4:]), file: int32(u32(b[8:])), row: int64(u64(b[12:])),
		sums: sums{
			key: int64(u64(b[20:])), x: math.Float32frombits(u32(b[28:])), ids: int32(u32(b[32:])),
			idsXor: int64(u64(b[36:])), blobMD5: int64(u64(b[44:])),
		},
	}
}

// ledgerGroup is the number of rows of the Parquet ledger's row groups.
const ledgerGroup = 1 << 17

// writeLedger writes the segments as one Parquet file.
func writeLedger(path string, segments []segment) (err error) {
	i32, i64 := arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "epoch", Type: i32},
		{Name: "step", Type: i32},
		{Name: "rank", Type: i32},
		{Name: "file", Type: i32},
		{Name: "row", Type: i64},
		{Name: "key", Type: i64},
		{Name: "x", Type: arrow.PrimitiveTypes.Float32},
		{Name: "ids", Type: i32},
		{Name: "ids_xor", Type: i64},
		{Name: "blob_md5", Type: i64},
	}, nil)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("chaos: ledger: %w", err)
	}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Snappy))
	out, err := pqarrow.NewFileWriter(schema, f, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return errors.Join(fmt.Errorf("chaos: ledger: %w", err), f.Close())
	}
	defer func() { err = errors.Join(err, out.Close()) }() // it closes the file
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	flush := func() error {
		rec := b.NewRecord()
		defer rec.Release()
		return out.Write(rec)
	}
	n := 0
	for _, s := range segments {
		err := s.each(func(r record) error {
			appendRecord(b, s.Rank, r)
			if n++; n%ledgerGroup == 0 {
				return flush()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return flush()
}

func appendRecord(b *array.RecordBuilder, rank int, r record) {
	ints := func(i int, v int32) { b.Field(i).(*array.Int32Builder).Append(v) }
	longs := func(i int, v int64) { b.Field(i).(*array.Int64Builder).Append(v) }
	ints(0, int32(r.epoch))
	ints(1, int32(r.step))
	ints(2, int32(rank))
	ints(3, r.file)
	longs(4, r.row)
	longs(5, r.sums.key)
	b.Field(6).(*array.Float32Builder).Append(r.sums.x)
	ints(7, r.sums.ids)
	longs(8, r.sums.idsXor)
	longs(9, r.sums.blobMD5)
}
