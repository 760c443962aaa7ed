package dataset

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// fileWriter writes one file after another; its buffers hold one column of one row group.
type fileWriter struct {
	Table
	samplers []*sampler
	made     func(rows int) // told of each row group
	// What labels follow from: indices of columns, or -1.
	firstDense, firstSparse int

	ints     []int32
	floats   []float32
	ids      []int64
	texts    []parquet.ByteArray
	def, rep []int16
}

func newFileWriter(t Table, samplers []*sampler, made func(rows int)) *fileWriter {
	first := func(kind Kind) int { return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Kind == kind }) }
	return &fileWriter{Table: t, samplers: samplers, made: made, firstDense: first(Dense), firstSparse: first(Sparse)}
}

// write makes the file of rows first to first+rows.
func (w *fileWriter) write(ctx context.Context, path string, first, rows int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	out := file.NewParquetWriter(unclosed{buffered}, parquetSchema(w.Columns), file.WithWriterProps(properties(w.Columns)))
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
		var y int32
		if cell(row, col)>>54 < w.positives(row) {
			y = 1
		}
		w.ints = append(w.ints, y)
	}
}

// positives is the probability, in 1/1024, of a row's label to be 1. It follows from two features, so that there is
// something to learn.
func (w *fileWriter) positives(row int) uint64 {
	p := uint64(rarely)
	if w.firstDense >= 0 {
		if v, ok := w.number(w.firstDense, row); ok && v > 2 {
			p += often
		}
	}
	if w.firstSparse >= 0 && w.samplers[w.firstSparse].length(cell(row, w.firstSparse)) > 2 {
		p += often
	}
	return p
}

// number is a row's value of a Dense or Real column, if it is not null.
func (w *fileWriter) number(col, row int) (float32, bool) {
	state := cell(row, col)
	if w.samplers[col].length(state) == null {
		return 0, false
	}
	c, draw := &w.Columns[col], mix(state+golden)
	if c.Kind == Real {
		low, high := math.Float32bits(c.Low), math.Float32bits(c.High)
		return math.Float32frombits(low + uint32(uint64(high-low)*(draw>>32)>>32)), true
	}
	return float32(int(w.samplers[col].rank(draw)) - c.Shift), true
}

func (w *fileWriter) fillNumbers(col, first, rows int) {
	w.floats, w.def = w.floats[:0], w.def[:0]
	for row := first; row < first+rows; row++ {
		v, ok := w.number(col, row)
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
	s := w.samplers[col]
	w.ids, w.def, w.rep = w.ids[:0], w.def[:0], w.rep[:0]
	for row := first; row < first+rows; row++ {
		state := cell(row, col)
		n := s.length(state)
		if n <= 0 {
			w.def = append(w.def, int16(n+defEmpty))
			w.rep = append(w.rep, 0)
			continue
		}
		for k := range n {
			state += golden
			w.ids = append(w.ids, s.id(s.rank(mix(state))))
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
			fields = append(fields, schema.MustGroup(schema.ListOfWithName(c.Name, element, parquet.Repetitions.Optional, -1)))
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
			options = append(options, parquet.WithDictionaryFor(c.Name, false), parquet.WithCompressionFor(c.Name, compress.Codecs.Uncompressed))
		}
	}
	return parquet.NewWriterProperties(options...)
}
