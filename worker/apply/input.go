package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// input is a file whose rows are taken.
type input struct {
	storage storage.Storage
	profile string
	uri     *pb.File
	file    format.File
	bound   format.Bound
}

// read reads what an extent is decoded from.
func (in *input) read(ctx context.Context, extent int, limit int64) ([][]byte, error) {
	ranges := make([]storage.Range, in.bound.Chunks())
	for i := range ranges {
		ranges[i] = in.bound.Chunk(extent, i).Range
	}
	if data, ok := in.storage.(storage.InMemory); ok {
		return parts(data, ranges), nil
	}
	return storage.ReadRanges(ctx, in.storage, in.profile, in.uri, ranges, storage.Reading{},
		func(size int64) ([]byte, error) {
			if err := within(size, limit); err != nil {
				return nil, fmt.Errorf("%s: %w", format.Name(in.file, extent), err)
			}
			return make([]byte, size), nil
		})
}

// parts are ranges of a file. What describes it says that they lie inside.
func parts(m storage.InMemory, of []storage.Range) [][]byte {
	out := make([][]byte, len(of))
	for i, r := range of {
		out[i] = m[r.Offset:][:r.Length:r.Length]
	}
	return out
}

// SchemaOf is what an Arrow schema is as that of a dataset, which decides what a spec makes of it.
func SchemaOf(ctx context.Context, s *arrow.Schema) (*spec.Schema, error) {
	none := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer none.Release()
	data, err := fileOf(none.NewRecord())
	if err != nil {
		return nil, err
	}
	return SchemaOfFile(ctx, data)
}

// SchemaOfFile is that of an Arrow IPC file.
func SchemaOfFile(ctx context.Context, file []byte) (*spec.Schema, error) {
	f := &pb.File{Uri: "schema", Size: int64(len(file))}
	described, err := formats.Load(ctx, storage.InMemory(file), "", f, nil)
	if err != nil {
		return nil, err
	}
	schema := described.Columns().Schema
	return &schema, nil
}

// fileOf writes a record as an Arrow IPC file.
func fileOf(rows arrow.Record) ([]byte, error) {
	var out file
	w, err := ipc.NewFileWriter(&out, ipc.WithSchema(rows.Schema()))
	if err == nil {
		err = w.Write(rows)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("apply: the rows: %w", err)
	}
	return out.Bytes(), nil
}

// file is what Arrow's writer writes to, which wants to know where it is.
type file struct{ bytes.Buffer }

// Seek tells where the end is.
func (f *file) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, errors.ErrUnsupported
	}
	return int64(f.Len()), nil
}
