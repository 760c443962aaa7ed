package fitted

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/file"
	pqmetadata "github.com/apache/arrow/go/v15/parquet/metadata"

	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// decoded are the columns of a row group.
type decoded struct {
	name, text, binary optional[parquet.ByteArray]
	id, int, count     optional[int64]
	float              optional[float64]
}

// optional is a column: rows whose level is 0 have no value.
type optional[T any] struct {
	values []T
	levels []int16
	taken  int
}

// next is the value of row i, the one after those taken.
func (o *optional[T]) next(i int) (v T, ok bool) {
	if o.levels[i] == 0 {
		return v, false
	}
	o.taken++
	return o.values[o.taken-1], true
}

// row is row i, the one after those taken.
func (d *decoded) row(i int) Row {
	r := Row{ID: -1, Count: -1}
	if name, ok := d.name.next(i); ok {
		r.Name = string(name)
	}
	if id, ok := d.id.next(i); ok {
		r.ID = id
	}
	if n, ok := d.count.next(i); ok {
		r.Count = n
	}
	if v, ok := d.int.next(i); ok {
		r.Value = Int(v)
	}
	if v, ok := d.float.next(i); ok {
		r.Value = Float(v)
	}
	if v, ok := d.text.next(i); ok {
		r.Value = Text(v)
	}
	if v, ok := d.binary.next(i); ok {
		r.Value = Text(v)
	}
	return r
}

// decode reads the columns of a row group, whose bytes are data.
func (f *File) decode(index int, g Group, data []byte) (d *decoded, err error) {
	defer recovered(&err)
	group := f.footer.RowGroup(index)
	if group.NumRows() != g.Rows || group.NumColumns() != columns {
		return nil, fmt.Errorf("it has %d rows and %d columns instead of %d and %d", group.NumRows(),
			group.NumColumns(), g.Rows, columns)
	}
	for c := range columns {
		if err := checkChunk(group, c, g, data); err != nil {
			return nil, fmt.Errorf("column %d: %w", c, err)
		}
	}
	source := io.NewSectionReader(shifted{data, g.Offset}, 0, g.Offset+g.Bytes)
	reader, err := file.NewParquetReader(source, file.WithMetadata(f.footer))
	if err != nil {
		return nil, err
	}
	rows := reader.RowGroup(index)
	d = &decoded{}
	return d, errors.Join(
		readColumn(rows, colName, &d.name), readColumn(rows, colID, &d.id), readColumn(rows, colInt, &d.int),
		readColumn(rows, colFloat, &d.float), readColumn(rows, colText, &d.text),
		readColumn(rows, colBytes, &d.binary), readColumn(rows, colCount, &d.count))
}

// readColumn reads all of a column.
func readColumn[T any](rows *file.RowGroupReader, c int, to *optional[T]) error {
	column, err := rows.Column(c)
	if err != nil {
		return fmt.Errorf("column %d: %w", c, err)
	}
	typed, ok := column.(interface {
		ReadBatch(n int64, values []T, levels, repeated []int16) (int64, int, error)
	})
	if d := column.Descriptor(); !ok || d.MaxDefinitionLevel() != 1 || d.MaxRepetitionLevel() != 0 {
		return fmt.Errorf("column %d: its type is not that of fitted files", c)
	}
	n := int(rows.NumRows())
	to.values, to.levels = make([]T, n), make([]int16, n)
	levels, values := 0, 0
	for levels < n {
		more, got, err := typed.ReadBatch(int64(n-levels), to.values[values:], to.levels[levels:], nil)
		if err == nil && more == 0 {
			err = errors.New("it ends early")
		}
		if err != nil {
			return fmt.Errorf("column %d: %w", c, err)
		}
		levels, values = levels+int(more), values+got
	}
	present := 0
	for _, l := range to.levels {
		present += int(l)
	}
	if present != values {
		return fmt.Errorf("column %d: it has %d values, and levels of %d", c, values, present)
	}
	return nil
}

// shifted shows bytes of a file at their offset in it.
type shifted struct {
	data []byte
	from int64
}

func (s shifted) ReadAt(p []byte, at int64) (int, error) {
	if at < s.from {
		return 0, errors.New("bytes before the row group are asked for")
	}
	return bytes.NewReader(s.data).ReadAt(p, at-s.from)
}

// checkChunk walks through the pages of a column chunk: arrow's reader believes what their headers say.
func checkChunk(group *pqmetadata.RowGroupMetaData, c int, g Group, data []byte) error {
	chunk, err := group.ColumnChunk(c)
	if err != nil {
		return err
	}
	from, size := chunk.DataPageOffset(), chunk.TotalCompressedSize()
	if chunk.HasDictionaryPage() {
		from = min(from, chunk.DictionaryPageOffset())
	}
	from -= g.Offset
	if from < 0 || size < 0 || size > int64(len(data)) || from > int64(len(data))-size {
		return errors.New("it lies outside of its row group")
	}
	if chunk.Compression() != compress.Codecs.Uncompressed || chunk.NumValues() != g.Rows {
		return fmt.Errorf("it is compressed, or has %d values instead of %d", chunk.NumValues(), g.Rows)
	}
	var rows int64
	for pages := data[from : from+size]; len(pages) > 0; {
		h, n, err := readHeader(pages)
		if err != nil {
			return fmt.Errorf("page header: %w", err)
		}
		if err := h.check(g.Rows, len(pages)-n); err != nil {
			return err
		}
		if h.kind == dataPage {
			rows += int64(h.values)
		}
		pages = pages[n+int(h.size):]
	}
	if rows != g.Rows {
		return fmt.Errorf("its pages have %d rows of %d", rows, g.Rows)
	}
	return nil
}

// header is what a page header says.
type header struct {
	kind, size, uncompressed int32
	values, encoding, levels int32
	parts                    int // descriptions of a page
}

// As in parquet.thrift.
const (
	dataPage, dictionaryPage                   = 0, 2
	plain, plainDictionary, rle, rleDictionary = 0, 2, 3, 8
)

func readHeader(data []byte) (h header, n int, err error) {
	r := thrift.NewReader(data)
	h.kind, h.size, h.values, h.levels = -1, -1, -1, rle
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I32:
			h.kind = r.Int32()
		case 2<<4 | thrift.I32:
			h.uncompressed = r.Int32()
		case 3<<4 | thrift.I32:
			h.size = r.Int32()
		case 5<<4 | thrift.Struct, 7<<4 | thrift.Struct:
			h.readPage(r, f>>4 == 5)
			h.parts++
		default:
			r.Skip(f)
		}
	}
	return h, r.Pos(), r.Err()
}

// readPage reads what a header says of a page of data, or of a dictionary.
func (h *header) readPage(r *thrift.Reader, isData bool) {
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch {
		case f == 1<<4|thrift.I32:
			h.values = r.Int32()
		case f == 2<<4|thrift.I32:
			h.encoding = r.Int32()
		case f == 3<<4|thrift.I32 && isData:
			h.levels = r.Int32()
		default:
			r.Skip(f)
		}
	}
}

// check refuses what Writer does not write, in a chunk of so many rows of which so many bytes are left.
func (h *header) check(rows int64, left int) error {
	known := h.encoding == plain || h.encoding == plainDictionary || h.kind == dataPage && h.encoding == rleDictionary
	switch {
	case h.kind != dataPage && h.kind != dictionaryPage, h.parts != 1:
		return fmt.Errorf("a page of type %d", h.kind)
	case h.size < 0 || int(h.size) > left || h.uncompressed != h.size:
		return fmt.Errorf("a page of %d bytes, %d uncompressed, where %d are left", h.size, h.uncompressed, left)
	case h.values < 0 || int64(h.values) > rows:
		return fmt.Errorf("a page of %d values in %d rows", h.values, rows)
	case !known || h.levels != rle:
		return fmt.Errorf("a page with encoding %d, levels %d", h.encoding, h.levels)
	}
	return nil
}
