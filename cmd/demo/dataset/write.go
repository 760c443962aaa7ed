package dataset

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// fileWriter writes one file after another; its buffers hold one column of one row group.
type fileWriter struct {
	Table
	generator *Generator
	made      func(rows int) // told of each row group

	ints     []int32
	floats   []float32
	ids      []int64
	texts    []parquet.ByteArray
	def, rep []int16
}

// write makes the file of rows first to first+rows.
func (w *fileWriter) write(ctx context.Context, path string, first, rows int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	out := file.NewParquetWriter(unclosed{buffered}, parquetSchema(w.Columns),
		file.WithWriterProps(properties(w.Columns)))
	defer func() {
		if err != nil {
			_ = out.Close()
			_ = f.Close()
		}
	}()
	size := w.GroupRows
	if size == 0 {
		size = groupRows(rows)
	}
	for start := 0; start < rows; start += size {
		n := min(size, rows-start)
		if err := w.rowGroup(ctx, out.AppendRowGroup(), first+start, n); err != nil {
			return err
		}
		w.made(n)
	}
	if err := out.Close(); err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// unclosed keeps the Parquet writer from closing what it writes to.
type unclosed struct{ *bufio.Writer }

func (w *fileWriter) rowGroup(ctx context.Context, group file.SerialRowGroupWriter, first, rows int) error {
	for i, c := range w.Columns {
		if err := ctx.Err(); err != nil {
			return err
		}
		chunk, err := group.NextColumn()
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
		switch chunk := chunk.(type) {
		case *file.Int32ColumnChunkWriter:
			w.fillLabel(i, first, rows)
			_, err = chunk.WriteBatch(w.ints, nil, nil)
		case *file.Float32ColumnChunkWriter:
			w.fillNumbers(i, first, rows)
			_, err = chunk.WriteBatch(w.floats, w.def, nil)
		case *file.Int64ColumnChunkWriter:
			if c.Kind == Row {
				w.fillRows(first, rows)
				_, err = chunk.WriteBatch(w.ids, nil, nil)
				break
			}
			w.fillSparse(i, first, rows)
			_, err = chunk.WriteBatch(w.ids, w.def, w.rep)
		case *file.ByteArrayColumnChunkWriter:
			err = w.writePhotographs(chunk, c, i, first, rows)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return group.Close()
}

func (w *fileWriter) fillLabel(col, first, rows int) {
	w.ints = w.ints[:0]
	for row := first; row < first+rows; row++ {
		w.ints = append(w.ints, w.generator.Label(col, row))
	}
}

func (w *fileWriter) fillNumbers(col, first, rows int) {
	w.floats, w.def = w.floats[:0], w.def[:0]
	for row := first; row < first+rows; row++ {
		v, ok := w.generator.Number(col, row)
		if !ok {
			w.def = append(w.def, 0)
			continue
		}
		w.def = append(w.def, 1)
		w.floats = append(w.floats, v)
	}
}

// Definition levels of a Sparse column.
const (
	defNull    = 0
	defEmpty   = 1
	defElement = 3
)

func (w *fileWriter) fillRows(first, rows int) {
	w.ids = w.ids[:0]
	for row := first; row < first+rows; row++ {
		w.ids = append(w.ids, int64(row))
	}
}

func (w *fileWriter) fillSparse(col, first, rows int) {
	w.ids, w.def, w.rep = w.ids[:0], w.def[:0], w.rep[:0]
	for row := first; row < first+rows; row++ {
		before := len(w.ids)
		var ok bool
		w.ids, ok = w.generator.AppendIDs(w.ids, col, row)
		switch {
		case !ok:
			w.def, w.rep = append(w.def, defNull), append(w.rep, 0)
		case len(w.ids) == before:
			w.def, w.rep = append(w.def, defEmpty), append(w.rep, 0)
		}
		for k := range len(w.ids) - before {
			w.def = append(w.def, defElement)
			w.rep = append(w.rep, int16(min(k, 1)))
		}
	}
}

// parquetSchema is the schema as Arrow's writers lay it out: elements of lists are optional, though none is null.
func parquetSchema(columns []Column) *schema.GroupNode {
	var fields schema.FieldList
	for _, c := range columns {
		switch c.Kind {
		case Label:
			fields = append(fields, schema.NewInt32Node(c.Name, parquet.Repetitions.Required, -1))
		case Dense, Real:
			fields = append(fields, schema.NewFloat32Node(c.Name, parquet.Repetitions.Optional, -1))
		case Sparse:
			element := schema.NewInt64Node("element", parquet.Repetitions.Optional, -1)
			fields = append(fields,
				schema.MustGroup(schema.ListOfWithName(c.Name, element, parquet.Repetitions.Optional, -1)))
		case Row:
			fields = append(fields, schema.NewInt64Node(c.Name, parquet.Repetitions.Required, -1))
		case JPEG:
			fields = append(fields, schema.NewByteArrayNode(c.Name, parquet.Repetitions.Required, -1))
		}
	}
	return schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1))
}

// properties are those of a dataset good to train from. Dictionaries pay wherever values repeat themselves within a row
// group, as even the longest tail of ids does.
func properties(columns []Column) *parquet.WriterProperties {
	options := []parquet.WriterProperty{
		parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithDataPageVersion(parquet.DataPageV2),
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(1),
		parquet.WithDictionaryPageSizeLimit(4 << 20),
		parquet.WithBatchSize(8 << 10),
		parquet.WithCreatedBy("penstock bench/dataset"), // another name would be another formatVersion
	}
	for _, c := range columns {
		switch c.Kind {
		case Row, Real:
			options = append(options, parquet.WithDictionaryFor(c.Name, false))
		case JPEG:
			options = append(options, parquet.WithDictionaryFor(c.Name, false),
				parquet.WithCompressionFor(c.Name, compress.Codecs.Uncompressed))
		}
	}
	return parquet.NewWriterProperties(options...)
}
