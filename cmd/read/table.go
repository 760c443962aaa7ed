package read

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

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/client"
)

// Table writes batches to a Parquet file, which has its name only when it is whole.
type Table struct {
	path   string
	file   *os.File
	writer *pqarrow.FileWriter
	closed bool
}

// CreateTable begins a file, which must not be there.
func CreateTable(path string) (*Table, error) {
	if _, err := os.Stat(path); err == nil {
		return nil, fmt.Errorf("%s exists; name another file, or remove it", path)
	}
	f, err := os.Create(path + ".part")
	if err != nil {
		return nil, fmt.Errorf("write parquet: %w", err)
	}
	return &Table{path: path, file: f}, nil
}

// Write appends the first rows of a batch.
func (t *Table) Write(b *client.Batch, rows int) error {
	wire := b.Record()
	defer wire.Release()
	whole := flatten(wire)
	rec := whole.NewSlice(0, int64(rows))
	defer rec.Release()
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

func (t *Table) begin(schema *arrow.Schema) error {
	seen := map[string]bool{}
	for _, f := range schema.Fields() {
		if seen[f.Name] {
			return fmt.Errorf(
				"write %s: two columns would be called %s, which readers refuse: leave it out of one of the spec's "+
					"features", t.path, f.Name)
		}
		seen[f.Name] = true
	}
	// Pages are of version 1: arrow's writer ends those of lists inside of rows, which version 2 does not allow.
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithMaxRowGroupLength(1<<16))
	var err error
	if t.writer, err = pqarrow.NewFileWriter(schema, t.file, props, pqarrow.DefaultWriterProps()); err != nil {
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	return nil
}

// Close ends the file and gives it its name. The program says what columns a file without rows has.
func (t *Table) Close(program *pb.Program) error {
	if t.writer == nil {
		if err := t.begin(emptySchema(program)); err != nil {
			return err
		}
	}
	if err := t.writer.Close(); err != nil { // and with it the file
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	if err := os.Rename(t.file.Name(), t.path); err != nil {
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	t.closed = true
	return nil
}

// Abandon removes what was written of a file that was not closed.
func (t *Table) Abandon() error {
	if t.closed {
		return nil
	}
	_ = t.file.Close() // the writer may have closed it, and it is removed anyway
	if err := os.Remove(t.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", t.path, err)
	}
	return nil
}

// emptySchema is what flatten would make of the program's batches.
func emptySchema(p *pb.Program) *arrow.Schema {
	var fields []arrow.Field
	add := func(name string, t arrow.DataType) { fields = append(fields, arrow.Field{Name: name, Type: t}) }
	for _, o := range p.GetOutputs() {
		switch o.GetLayout() {
		case pb.Layout_DENSE:
			for _, name := range o.GetColumns() {
				add(name, arrow.PrimitiveTypes.Float32)
			}
		case pb.Layout_SPARSE:
			elem := elemType(o.GetType().GetKind())
			if o.Weights != nil {
				elem = arrow.StructOf(arrow.Field{Name: "value", Type: elem},
					arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32})
			}
			add(o.GetName(), arrow.ListOfNonNullable(elem))
		case pb.Layout_LABEL:
			add(o.GetName(), elemType(o.GetType().GetKind()))
		case pb.Layout_IMAGE:
			if o.GetType().GetKind() == pb.Kind_FLOAT32 {
				add(o.GetName(), arrow.ListOfNonNullable(arrow.PrimitiveTypes.Float32))
				continue
			}
			add(o.GetName(), arrow.BinaryTypes.Binary)
		case pb.Layout_TENSOR, pb.Layout_PADDED:
			t := numbersOf(spec.KindName(o.GetType().GetKind()), nil).DataType()
			if len(o.GetShape()) > 0 {
				t = arrow.ListOfNonNullable(t)
			}
			add(o.GetName(), t)
		case pb.Layout_BYTES:
			if o.GetType().GetList() {
				add(o.GetName(), arrow.ListOfNonNullable(arrow.BinaryTypes.Binary))
				continue
			}
			add(o.GetName(), arrow.BinaryTypes.Binary)
		default:
			add(o.GetName(), arrow.BinaryTypes.Binary)
		}
	}
	if p.GetProvenance() {
		add("_file", arrow.PrimitiveTypes.Int32)
		add("_row", arrow.PrimitiveTypes.Int64)
		if spec.HasParts(p) {
			add("_part", arrow.PrimitiveTypes.Int32)
		}
	}
	return arrow.NewSchema(fields, nil)
}

func elemType(k pb.Kind) arrow.DataType {
	switch k {
	case pb.Kind_BOOL:
		return arrow.FixedWidthTypes.Boolean
	case pb.Kind_INT32:
		return arrow.PrimitiveTypes.Int32
	case pb.Kind_INT64:
		return arrow.PrimitiveTypes.Int64
	case pb.Kind_FLOAT32:
		return arrow.PrimitiveTypes.Float32
	case pb.Kind_FLOAT64:
		return arrow.PrimitiveTypes.Float64
	}
	return arrow.BinaryTypes.Binary
}

// flatten gives each dense feature a column of its own, images as byte strings, and tensors as lists: Parquet readers
// take those best.
func flatten(rec arrow.Record) arrow.Record {
	var fields []arrow.Field
	var cols []arrow.Array
	add := func(name string, c arrow.Array) {
		fields, cols = append(fields, arrow.Field{Name: name, Type: c.DataType()}), append(cols, c)
	}
	for i, f := range rec.Schema().Fields() {
		c := rec.Column(i)
		switch layout, _ := f.Metadata.GetValue(tensors.Layout); layout {
		case "dense":
			list := c.(*array.FixedSizeList)
			for j, name := range denseNames(f) {
				add(name, column(list.ListValues().(*array.Float32).Float32Values(), j, list))
			}
		case "image":
			add(f.Name, imageColumn(c.(*array.FixedSizeList)))
		case "tensor":
			add(f.Name, tensorColumn(f, c))
		case "padded":
			add(f.Name, paddedColumn(f, c.(*array.Struct)))
		default:
			add(f.Name, c)
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

func imageColumn(list *array.FixedSizeList) arrow.Array {
	pixels, ok := list.ListValues().(*array.Uint8)
	if !ok {
		return evenLists(list.ListValues(), list)
	}
	b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	for i := range list.Len() {
		from, to := list.ValueOffsets(i)
		b.Append(pixels.Uint8Values()[from:to])
	}
	return b.NewArray()
}

// denseNames are the names of a dense tensor's columns.
func denseNames(f arrow.Field) []string {
	text, _ := f.Metadata.GetValue(tensors.Names)
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil // the client has checked it
	}
	return names
}
