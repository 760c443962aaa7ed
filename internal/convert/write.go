package convert

import (
	"context"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	parquetprops "github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// writer collects records to row groups and encodes them.
type writer struct {
	schema *arrow.Schema
	out    output
	props  *parquetprops.WriterProperties // set by the first row group
	file   *pqarrow.FileWriter            // nil between files
	group  []arrow.Record
	rows   int64 // of the file
	after  place // of the last record
}

// write adds a record.
func (w *writer) write(ctx context.Context, p piece) error {
	w.group = append(w.group, p.record)
	w.rows += p.record.NumRows()
	w.after = p.after
	if !p.endsGroup {
		return nil
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if p.endsFile {
		return w.endFile(ctx)
	}
	return nil
}

// finish writes what is left. There is at least one file, though it may have no rows.
func (w *writer) finish(ctx context.Context) error {
	if len(w.group) > 0 || w.file == nil && len(w.out.done().files) == 0 {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if w.file == nil {
		return nil
	}
	return w.endFile(ctx)
}

// flush writes the row group.
func (w *writer) flush(ctx context.Context) (err error) {
	defer explainWrite(&err)
	if w.props == nil {
		if w.props, err = properties(w.schema, w.group); err != nil {
			return err
		}
	}
	if w.file == nil {
		buf, err := w.out.begin(ctx)
		if err != nil {
			return err
		}
		if w.file, err = pqarrow.NewFileWriter(w.schema, unclosed{buf}, w.props,
			pqarrow.DefaultWriterProps()); err != nil {
			return err
		}
	}
	if len(w.group) == 0 {
		return nil
	}
	w.file.NewRowGroup()
	for i, f := range w.schema.Fields() {
		var chunks []arrow.Array
		rows := int64(0)
		for _, rec := range w.group {
			cut, err := pieces(rec.Column(i))
			if err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
			chunks = append(chunks, cut...)
			rows += rec.NumRows()
		}
		if err := w.column(f.Name, arrow.NewChunked(f.Type, chunks), rows); err != nil {
			return err
		}
	}
	clear(w.group)
	w.group = w.group[:0]
	return nil
}

func (w *writer) column(name string, values *arrow.Chunked, rows int64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("arrow's writer panicked: %v", r)
		}
		if err != nil {
			err = fmt.Errorf("column %s: %w", name, err)
		}
	}()
	return w.file.WriteColumnChunked(values, 0, rows)
}

func (w *writer) endFile(ctx context.Context) (err error) {
	defer explainWrite(&err)
	f := w.file
	w.file = nil
	if err := f.Close(); err != nil {
		return err
	}
	rows := w.rows
	w.rows = 0
	return w.out.end(ctx, rows, w.after)
}

// abandon frees a file that was not ended.
func (w *writer) abandon() {
	if w.file != nil {
		var err error
		defer explainWrite(&err)
		err = w.file.Close()
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
func properties(schema *arrow.Schema, group []arrow.Record) (*parquetprops.WriterProperties, error) {
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
	described, err := pqarrow.ToParquet(schema, nil, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	chunks := make([][]arrow.Array, described.NumColumns())
	for _, rec := range group {
		var inRecord []arrow.Array
		for _, column := range rec.Columns() {
			inRecord = append(inRecord, leaves(column)...)
		}
		for leaf, values := range inRecord {
			chunks[leaf] = append(chunks[leaf], values)
		}
	}
	for leaf, values := range chunks {
		options = append(options,
			parquetprops.WithDictionaryFor(described.Column(leaf).Path(), dictionaryPays(values)))
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
