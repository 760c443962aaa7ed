package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/vector"
)

// arrowDecoder has arrow's reader decode the chunks.
type arrowDecoder struct {
	fetcher
	sources []*pb.Source

	meta    *metadata.FileMetaData
	bytes   *sparse
	leaves  []int
	group   int
	records pqarrow.RecordReader
	vectors []*vector.Vector
}

func (d *arrowDecoder) reset(ctx context.Context, i, rg int) error {
	if d.records != nil {
		d.records.Release()
		d.records = nil
	}
	ranges, chunks, err := d.fetch(ctx, i, rg)
	if err != nil {
		return err
	}
	if d.leaves, err = columns.Leaves(d.in.footers[i], d.sources); err != nil {
		return err
	}
	d.bytes = &sparse{size: d.in.files[i].GetSize(), ranges: ranges, chunks: chunks}
	d.meta, d.group = d.in.metas[i], rg
	return nil
}

// readMeta is a file's footer as arrow's reader has it.
func readMeta(ctx context.Context, s storage.Storage, f *pb.File) (*metadata.FileMetaData, error) {
	r, err := file.NewParquetReader(&remote{ctx: ctx, storage: s, file: f})
	if err != nil {
		return nil, err
	}
	return r.MetaData(), nil
}

// open begins the row group, now that it is known how many rows a window has.
func (d *arrowDecoder) open(rows int) error {
	r, err := file.NewParquetReader(d.bytes, file.WithMetadata(d.meta))
	if err != nil {
		return err
	}
	fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: int64(rows)}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	d.records, err = fr.GetRecordReader(context.Background(), d.leaves, []int{d.group})
	return err
}

func (d *arrowDecoder) next(rows int) ([]*vector.Vector, error) {
	if d.records == nil {
		if err := d.open(rows); err != nil {
			return nil, err
		}
	}
	if !d.records.Next() {
		return nil, errors.Join(errors.New("arrow's reader has fewer rows than the footer"), d.records.Err())
	}
	rec := d.records.Record()
	if rec.NumRows() != int64(rows) {
		return nil, fmt.Errorf("arrow's reader made %d rows of %d", rec.NumRows(), rows)
	}
	d.vectors = d.vectors[:0]
	for _, s := range d.sources {
		at := rec.Schema().FieldIndices(s.GetPath()[0])
		if len(at) != 1 {
			return nil, fmt.Errorf("arrow's reader has %d columns %s", len(at), s.GetName())
		}
		v, err := fromArrow(rec.Column(at[0]), spec.TypeFromProto(s.GetType()))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", s.GetName(), err)
		}
		d.vectors = append(d.vectors, v)
	}
	return d.vectors, nil
}

// fromArrow makes a vector of an array, on its memory where it can.
func fromArrow(a arrow.Array, t spec.Type) (*vector.Vector, error) {
	v := &vector.Vector{Type: t, Rows: a.Len(), Valid: validity(a)}
	values := a
	if list, ok := a.(*array.List); ok {
		offsets := list.Offsets()
		v.Offsets = make([]int32, v.Rows+1)
		for i := range v.Offsets {
			v.Offsets[i] = offsets[i] - offsets[0]
		}
		values = array.NewSlice(list.ListValues(), int64(offsets[0]), int64(offsets[v.Rows]))
		v.ElemValid = validity(values)
	}
	switch values := values.(type) {
	case *array.Int32:
		v.I32 = values.Int32Values()
	case *array.Int64:
		v.I64 = values.Int64Values()
	case *array.Float32:
		v.F32 = values.Float32Values()
	default:
		return nil, fmt.Errorf("the workloads have no %s", a.DataType())
	}
	return v, nil
}

func validity(a arrow.Array) []uint64 {
	if a.NullN() == 0 {
		return nil
	}
	words := make([]uint64, vector.Words(a.Len()))
	bits, from := a.NullBitmapBytes(), a.Data().Offset()
	for i := range a.Len() {
		if bitutil.BitIsSet(bits, from+i) {
			words[i>>6] |= 1 << (i & 63)
		}
	}
	return words
}

// sparse is a file of which some ranges are in memory.
type sparse struct {
	size, at int64
	ranges   []storage.Range
	chunks   [][]byte
}

func (s *sparse) ReadAt(p []byte, off int64) (int, error) {
	for i, r := range s.ranges {
		if off >= r.Offset && off < r.Offset+r.Length {
			n := copy(p, s.chunks[i][off-r.Offset:])
			if n < len(p) {
				return n, io.EOF
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("byte %d was not fetched", off)
}

// Seek is how arrow's reader asks for the size.
func (s *sparse) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		s.at = offset
	case io.SeekCurrent:
		s.at += offset
	case io.SeekEnd:
		s.at = s.size + offset
	}
	return s.at, nil
}

// remote is a file in a storage.
type remote struct {
	sparse
	ctx     context.Context //nolint:containedctx // io.ReaderAt takes none
	storage storage.Storage
	file    *pb.File
}

func (r *remote) ReadAt(p []byte, off int64) (int, error) {
	if err := r.storage.ReadAt(r.ctx, "", r.file, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (r *remote) Seek(offset int64, whence int) (int64, error) {
	r.size = r.file.GetSize()
	return r.sparse.Seek(offset, whence)
}
