package reference

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// stored is a file in a storage as an io.ReaderAt.
type stored struct {
	ctx     context.Context //nolint:containedctx // io.ReaderAt has no place for it
	store   storage.Storage
	profile string
	file    *pb.File
}

// ReadAt implements io.ReaderAt for ranges inside the file.
func (s stored) ReadAt(p []byte, off int64) (int, error) {
	if err := s.store.ReadAt(s.ctx, s.profile, s.file, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// rowsPerBatch is how many rows are read at a time.
const rowsPerBatch = 8192

// parquetFile is an open file.
type parquetFile struct {
	reader *pqarrow.FileReader
	rows   int64
}

func (in *Interpreter) openFile(ctx context.Context, file *pb.File) (f *parquetFile, err error) {
	defer recovered(&err)
	r := stored{ctx, in.store, in.spec.GetDataset().GetStorage(), file}
	pf, err := parquetfile.NewParquetReader(io.NewSectionReader(r, 0, file.GetSize()))
	if err != nil {
		return nil, err
	}
	// Never Parallel: a panic of its goroutines would end the process.
	props := pqarrow.ArrowReadProperties{BatchSize: rowsPerBatch}
	reader, err := pqarrow.NewFileReader(pf, props, memory.NewGoAllocator())
	if err != nil {
		return nil, err
	}
	return &parquetFile{reader: reader, rows: pf.NumRows()}, nil
}

// recovered turns a panic of arrow's reader, which some corrupt files cause, into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("arrow's reader panicked: %v", p)
	}
}

// batch is a run of rows: an array for each top-level column read.
type batch struct {
	rows   int
	arrays map[string]arrow.Array
}

// batches calls each with the batches of the given leaf columns, one after another.
func (f *parquetFile) batches(ctx context.Context, leaves []int, each func(b batch) error) (err error) {
	defer recovered(&err)
	fields, err := f.reader.Manifest.GetFieldIndices(leaves)
	if err != nil {
		return err
	}
	wanted := map[int]bool{}
	for _, leaf := range leaves {
		wanted[leaf] = true
	}
	// A RecordReader would open the columns in goroutines of its own, whose panics nobody could catch.
	readers := map[string]*pqarrow.ColumnReader{}
	for _, i := range fields {
		r, err := f.reader.GetFieldReader(ctx, i, wanted, f.rowGroups())
		if err != nil {
			return fmt.Errorf("column %s: %w", f.reader.Manifest.Fields[i].Field.Name, err)
		}
		defer r.Release()
		readers[f.reader.Manifest.Fields[i].Field.Name] = r
	}
	if len(readers) != len(fields) {
		return errors.New("two columns have the same name")
	}
	for left := f.rows; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := batch{rows: int(min(left, rowsPerBatch)), arrays: map[string]arrow.Array{}}
		for name, r := range readers {
			if b.arrays[name], err = nextArray(r, b.rows); err != nil {
				return fmt.Errorf("column %s, %d rows before the end: %w", name, left, err)
			}
		}
		if err := each(b); err != nil {
			return err
		}
		left -= int64(b.rows)
	}
	return nil
}

func (f *parquetFile) rowGroups() []int {
	all := make([]int, f.reader.ParquetReader().NumRowGroups())
	for i := range all {
		all[i] = i
	}
	return all
}

// nextArray reads the next rows of a column.
func nextArray(r *pqarrow.ColumnReader, rows int) (arrow.Array, error) {
	chunked, err := r.NextBatch(int64(rows))
	if err != nil {
		return nil, err
	}
	if chunked.Len() != rows {
		return nil, fmt.Errorf("arrow's reader gave %d of %d rows", chunked.Len(), rows)
	}
	if len(chunked.Chunks()) == 1 {
		return chunked.Chunk(0), nil
	}
	return array.Concatenate(chunked.Chunks(), memory.NewGoAllocator())
}
