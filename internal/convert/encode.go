package convert

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	parquetprops "github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// encoder writes Parquet files, one after another, which all have the same columns.
type encoder struct {
	props *parquetprops.WriterProperties // set by the first row group
	file  *pqarrow.FileWriter            // nil between files
}

func (e *encoder) open() bool { return e.file != nil }

// begin begins a file. The first one's first row group says how columns are encoded.
func (e *encoder) begin(to io.Writer, l *layout, group []arrow.Record) (err error) {
	defer explainWrite(&err)
	if e.props == nil {
		if e.props, err = properties(l, group); err != nil {
			return err
		}
	}
	e.file, err = pqarrow.NewFileWriter(l.schema(), unclosed{to}, e.props, pqarrow.DefaultWriterProps())
	return err
}

// rowGroup writes a row group, unless it has no rows.
func (e *encoder) rowGroup(l *layout, group []arrow.Record) (err error) {
	defer explainWrite(&err)
	if len(group) == 0 {
		return nil
	}
	e.file.NewRowGroup()
	for _, c := range l.columns {
		if err := e.column(c, group); err != nil {
			return fmt.Errorf("column %s: %w", c.field.Name, err)
		}
	}
	return nil
}

func (e *encoder) column(c column, group []arrow.Record) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("arrow's writer panicked: %v", r)
		}
	}()
	values, err := c.values(group)
	if err != nil {
		return err
	}
	var chunks []arrow.Array
	rows := int64(0)
	for _, a := range values {
		cut, err := pieces(a)
		if err != nil {
			return err
		}
		chunks = append(chunks, cut...)
		rows += int64(a.Len())
	}
	return e.file.WriteColumnChunked(arrow.NewChunked(c.field.Type, chunks), 0, rows)
}

// end ends the file.
func (e *encoder) end() (err error) {
	defer explainWrite(&err)
	f := e.file
	e.file = nil
	return f.Close()
}

// abandon frees a file that was not ended.
func (e *encoder) abandon() {
	if e.open() {
		_ = e.end()
	}
}

// explainWrite makes an error of a panic of arrow's writer.
func explainWrite(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("arrow's writer panicked: %v", r)
	}
	if *err != nil {
		*err = fmt.Errorf("write Parquet: %w", *err)
	}
}

// unclosed keeps the Parquet writer from closing what it writes to.
type unclosed struct{ io.Writer }

// properties chooses how columns are encoded, by the first row group.
func properties(l *layout, group []arrow.Record) (*parquetprops.WriterProperties, error) {
	options := []parquetprops.WriterProperty{
		parquetprops.WithVersion(parquetprops.V2_LATEST),
		parquetprops.WithCompression(compress.Codecs.Zstd),
		parquetprops.WithDictionaryPageSizeLimit(2 << 20),
		parquetprops.WithMaxRowGroupLength(1 << 40),
		parquetprops.WithCreatedBy("penstock convert"),
		parquetprops.WithDataPageVersion(parquetprops.DataPageV2),
		parquetprops.WithDataPageSize(pageBytes),
		parquetprops.WithBatchSize(mostLevels),
	}
	described, err := pqarrow.ToParquet(l.schema(), nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	first := 0 // leaf of the column
	for _, c := range l.columns {
		values, err := c.values(group)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.field.Name, err)
		}
		var chunks [][]arrow.Array // by leaf
		for _, a := range values {
			for leaf, of := range leaves(a) {
				if leaf == len(chunks) {
					chunks = append(chunks, nil)
				}
				chunks[leaf] = append(chunks[leaf], of)
			}
		}
		for leaf, of := range chunks {
			options = append(options,
				parquetprops.WithDictionaryFor(described.Column(first+leaf).Path(), dictionaryPays(of)))
		}
		first += len(chunks)
	}
	return parquetprops.NewWriterProperties(options...), nil
}

const (
	pageBytes = 1 << 20
	// mostLevels are values, nulls and empty lists that arrow's writer writes at once: all of a piece. Else it would
	// end pages inside of rows, which version 2 of pages does not allow.
	mostLevels = 1 << 26
)

// pieces cuts values into what pages have: arrow's writer ends pages behind them.
func pieces(a arrow.Array) (out []arrow.Array, err error) {
	rows := int64(a.Len())
	step := max(1, rows*pageBytes/max(1, sizeOfArray(a)))
	for from := int64(0); from < rows; from += step {
		piece := array.NewSlice(a, from, min(from+step, rows))
		if n := levels(piece); n > mostLevels {
			return nil, fmt.Errorf("a page would have %d values of lists, and has at most %d: cut the longest lists",
				n, mostLevels)
		}
		out = append(out, piece)
	}
	return out, nil
}

// levels is how many values, nulls and empty lists are in the deepest lists of an array, at most.
func levels(a arrow.Array) int {
	n := a.Len()
	switch a := a.(type) {
	case array.ListLike:
		if n > 0 {
			from, _ := a.ValueOffsets(0)
			_, to := a.ValueOffsets(n - 1)
			n += levels(array.NewSlice(a.ListValues(), from, to))
		}
	case *array.Struct:
		for i := range a.NumField() {
			n = max(n, levels(a.Field(i)))
		}
	}
	return n
}
