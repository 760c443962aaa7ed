package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/client"
)

// table writes batches to a Parquet file, which has its name only when it is whole.
type table struct {
	path   string
	file   *os.File
	writer *pqarrow.FileWriter
	closed bool
}

func createTable(path string) (*table, error) {
	if _, err := os.Stat(path); err == nil {
		return nil, fmt.Errorf("%s exists; name another file, or remove it", path)
	}
	f, err := os.Create(path + ".part")
	if err != nil {
		return nil, fmt.Errorf("write parquet: %w", err)
	}
	return &table{path: path, file: f}, nil
}

func (t *table) write(b *client.Batch) error {
	wire := b.Record()
	defer wire.Release()
	rec := flatten(wire)
	if t.writer == nil {
		if err := t.begin(rec.Schema()); err != nil {
			return err
		}
	}
	if err := t.writer.WriteBuffered(rec); err != nil {
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	return nil
}

func (t *table) begin(schema *arrow.Schema) error {
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithMaxRowGroupLength(1<<16))
	var err error
	if t.writer, err = pqarrow.NewFileWriter(schema, t.file, props, pqarrow.DefaultWriterProps()); err != nil {
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	return nil
}

// close ends the file and gives it its name.
func (t *table) close() error {
	t.closed = true
	if t.writer == nil {
		// No row, and so no schema.
		if err := t.begin(arrow.NewSchema(nil, nil)); err != nil {
			return err
		}
	}
	if err := t.writer.Close(); err != nil { // and with it the file
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	if err := os.Rename(t.file.Name(), t.path); err != nil {
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	return nil
}

// abandon removes what was written of a file that was not closed.
func (t *table) abandon() error {
	if t.closed {
		return nil
	}
	err := errors.Join(t.file.Close(), os.Remove(t.file.Name()))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// flatten gives each dense feature a column of its own, and images as byte strings: Parquet readers take those best.
func flatten(rec arrow.Record) arrow.Record {
	var fields []arrow.Field
	var cols []arrow.Array
	for i, f := range rec.Schema().Fields() {
		list, ok := rec.Column(i).(*array.FixedSizeList)
		if !ok {
			fields, cols = append(fields, arrow.Field{Name: f.Name, Type: f.Type}), append(cols, rec.Column(i))
			continue
		}
		switch values := list.ListValues().(type) {
		case *array.Float32:
			for j, name := range denseNames(f) {
				fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float32})
				cols = append(cols, column(values.Float32Values(), j, list))
			}
		case *array.Uint8:
			fields = append(fields, arrow.Field{Name: f.Name, Type: arrow.BinaryTypes.Binary})
			cols = append(cols, pixels(values.Uint8Values(), list))
		}
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), cols, rec.NumRows())
}

// column copies column j of a row-major matrix.
func column(values []float32, j int, list *array.FixedSizeList) arrow.Array {
	b := array.NewFloat32Builder(memory.DefaultAllocator)
	b.Reserve(list.Len())
	for i := range list.Len() {
		from, _ := list.ValueOffsets(i)
		b.UnsafeAppend(values[int(from)+j])
	}
	return b.NewArray()
}

func pixels(values []uint8, list *array.FixedSizeList) arrow.Array {
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	for i := range list.Len() {
		from, to := list.ValueOffsets(i)
		b.Append(values[from:to])
	}
	return b.NewArray()
}

// denseNames are the names of a dense tensor's columns.
func denseNames(f arrow.Field) []string {
	text, _ := f.Metadata.GetValue("penstock.names")
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil // the client has checked it
	}
	return names
}
