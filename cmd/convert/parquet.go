package convert

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	parquetprops "github.com/apache/arrow/go/v15/parquet"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// notRead ends errors of arrow's reader.
const notRead = ": the file is damaged, or has a codec or an encoding that workers read and convert does not: use " +
	"it as it is, or write it again"

// Bounds of what is read ahead of each column of a Parquet file, and of all of them.
const (
	minBuffer  = 16 << 10
	maxBuffer  = 1 << 20
	allBuffers = 128 << 20
)

// parquet makes records of Parquet files, whatever their columns hold.
type parquet struct {
	in *inputs
	columnsOf
	opened  int                     // files so far
	columns []*pqarrow.ColumnReader // of the file
	rows    int64                   // of the file
	left    int64                   // of them
	// rowBytes is what a row takes, by the record before; a file's first one is small.
	rowBytes int64
	name     string
	size     int64 // of the file
	used     int64 // bytes of the files before
	total    int64
}

func openParquet(ctx context.Context, o Options, in *inputs) (*parquet, error) {
	if err := o.noText(); err != nil {
		return nil, err
	}
	p := &parquet{columnsOf: columnsOf{hexColumns: o.Hex}, in: in, total: in.total()}
	if err := p.nextFile(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// nextFile opens the next file, or returns errEnd.
func (p *parquet) nextFile(ctx context.Context) (err error) {
	p.close()
	p.used += p.size
	if p.size = 0; p.opened == len(p.in.files) {
		return errEnd
	}
	i := p.opened
	p.name, p.opened = p.in.name(i), i+1
	defer p.explain(&err)
	// v15 of arrow's reader does not parallelise unless told to, and panics of goroutines could not be recovered.
	// Without a buffered stream it would hold all chunks of a row group, twice.
	props := &parquetprops.ReaderProperties{BufferedStreamEnabled: true}
	pf, err := parquetfile.NewParquetReader(p.in.open(ctx, i), parquetfile.WithReadProps(props))
	if err != nil {
		return err
	}
	each := allBuffers / int64(max(1, pf.MetaData().Schema.NumColumns()))
	props.BufferSize = min(maxBuffer, max(minBuffer, each), p.in.files[i].GetSize())
	reader, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: batchRows}, memory.NewGoAllocator())
	if err != nil {
		return err
	}
	// Types go by the Parquet schema alone: what Arrow wrote beside it would bring dictionaries, for example.
	reader.Manifest, err = pqarrow.NewSchemaManifest(pf.MetaData().Schema, nil, &reader.Props)
	if err != nil {
		return err
	}
	if err := checkInt96(pf); err != nil {
		return err
	}
	if err := p.useSchema(reader); err != nil {
		return err
	}
	p.size = p.in.files[i].GetSize()
	if p.rows, err = countRows(pf.MetaData(), p.size-8-int64(pf.MetaData().Size())); err != nil {
		return err
	}
	p.left, p.rowBytes = p.rows, recordBytes/16
	return p.openColumns(ctx, reader)
}

// countRows counts the rows of a file that has so many bytes before its footer, and checks that its column chunks lie
// in them.
func countRows(f *metadata.FileMetaData, size int64) (rows int64, err error) {
	for i, g := range f.RowGroups {
		rows += g.GetNumRows()
		for _, c := range g.GetColumns() {
			m := c.GetMetaData()
			from := m.GetDataPageOffset()
			if m.IsSetDictionaryPageOffset() && m.GetDictionaryPageOffset() > 0 {
				from = min(from, m.GetDictionaryPageOffset())
			}
			if n := m.GetTotalCompressedSize(); from < 0 || n < 0 || n > size-from {
				return 0, fmt.Errorf(
					"row group %d, column %s: %d bytes at %d do not lie in the %d before the footer: the file is "+
						"damaged or cut off; write it again: %w",
					i, strings.Join(m.GetPathInSchema(), "."), n, from, size, io.ErrUnexpectedEOF)
			}
		}
	}
	if n := f.NumRows; n != rows && n != 0 { // which is what parquet-rs 0.3 wrote
		return 0, fmt.Errorf(
			"its row groups have %d rows, and the footer counts %d: the file is damaged; write it again", rows, n)
	}
	return rows, nil
}

// explain makes an error of a panic, which some corrupt files cause in arrow's reader, and names the file.
func (p *parquet) explain(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("arrow's reader panicked: %v%s", r, notRead)
	}
	if *err != nil {
		*err = fmt.Errorf("%s: %w", p.name, *err)
	}
}

// useSchema takes the first file's columns, and checks that the others' are the same.
func (p *parquet) useSchema(reader *pqarrow.FileReader) error {
	columns := typer{schema: reader.ParquetReader().MetaData().Schema}
	var fields []arrow.Field
	for _, f := range reader.Manifest.Fields {
		fields = append(fields, arrow.Field{Name: f.Field.Name, Type: columns.of(f.Field.Type), Nullable: true})
	}
	return p.use(p.in.name(0), fields)
}

func (p *parquet) openColumns(ctx context.Context, reader *pqarrow.FileReader) error {
	for i, f := range reader.Manifest.Fields {
		c, err := reader.GetColumn(ctx, i)
		if err != nil {
			return fmt.Errorf("column %s: %w", f.Field.Name, err)
		}
		p.columns = append(p.columns, c)
	}
	return nil
}

func (p *parquet) next(ctx context.Context, limit int64) (arrow.Record, error) {
	for p.left == 0 {
		if err := p.nextFile(ctx); err != nil {
			return nil, err
		}
	}
	rec, err := p.batch(min(limit, p.left, max(1, recordBytes/max(1, p.rowBytes))))
	if err == nil {
		p.rowBytes = sizeOf(rec) / rec.NumRows()
	}
	return rec, err
}

func (p *parquet) batch(rows int64) (rec arrow.Record, err error) {
	defer p.explain(&err)
	arrays := make([]arrow.Array, len(p.columns))
	for i, c := range p.columns {
		if arrays[i], err = p.array(i, c, rows); err != nil {
			return nil, fmt.Errorf("column %s: %w", p.arrow.Field(i).Name, err)
		}
	}
	p.left -= rows
	return array.NewRecord(p.arrow, arrays, rows), nil
}

// array reads the next rows of a column.
func (p *parquet) array(i int, c *pqarrow.ColumnReader, rows int64) (arrow.Array, error) {
	chunked, err := c.NextBatch(rows)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, notRead)
	}
	if int64(chunked.Len()) != rows {
		return nil, fmt.Errorf("arrow's reader gave %d of %d rows%s", chunked.Len(), rows, notRead)
	}
	values := chunked.Chunk(0)
	if len(chunked.Chunks()) > 1 {
		if values, err = array.Concatenate(chunked.Chunks(), memory.NewGoAllocator()); err != nil {
			return nil, err
		}
	}
	return p.column(i, values.Data(), p.rows-p.left)
}

func (p *parquet) behind() place { return place{Input: p.opened - 1, Row: p.rows - p.left} }

func (p *parquet) seek(ctx context.Context, input int) error {
	p.opened, p.used, p.size = input, 0, 0
	for _, f := range p.in.files[:input] {
		p.used += f.GetSize()
	}
	return p.nextFile(ctx)
}

func (p *parquet) read() (used, total int64) {
	if p.rows == 0 {
		return p.used, p.total
	}
	return p.used + int64(float64(p.size)*float64(p.rows-p.left)/float64(p.rows)), p.total
}

// close closes the open file; its columns are not read any more.
func (p *parquet) close() {
	for _, c := range p.columns {
		c.Release()
	}
	p.columns = nil
}
