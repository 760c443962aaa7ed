package convert

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/decimal128"
	"github.com/apache/arrow/go/v15/arrow/memory"
	parquetprops "github.com/apache/arrow/go/v15/parquet"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/vector"
)

// decimals are columns of a table, by their number, that stay what they are: workers read decimals as floats, so that
// arrow's reader reads these beside them, row by row.
type decimals struct {
	types   map[int]*arrow.Decimal128Type
	columns map[int]*pqarrow.ColumnReader // of the open file; those that it lacks have none
}

// staysDecimal is the type of a table's column that is read as it is; nil: it is none. A value of a partition is known
// as a float, so that it must have few digits.
func (in *inputs) staysDecimal(name string) *arrow.Decimal128Type {
	fields, ok := in.table.Schema.FieldsByName(name)
	if !ok {
		return nil
	}
	t, ok := fields[0].Type.(*arrow.Decimal128Type)
	if !ok || slices.Contains(in.table.Partitions, name) && t.Precision > 15 {
		return nil
	}
	return t
}

// open begins a file.
func (d *decimals) open(ctx context.Context, in *inputs, i int, holds format.File, sources []*pb.Source) (err error) {
	d.close()
	if len(d.types) == 0 {
		return nil
	}
	if holds.Format() != "Parquet" {
		return fmt.Errorf("%s: decimals of %s cannot be converted: leave them out by --columns", in.name(i),
			holds.Format())
	}
	defer explainDecimals(in.name(i), &err)
	props := &parquetprops.ReaderProperties{BufferedStreamEnabled: true, BufferSize: maxBuffer}
	pf, err := parquetfile.NewParquetReader(in.open(ctx, i), parquetfile.WithReadProps(props))
	if err != nil {
		return err
	}
	reader, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: batchRows}, memory.NewGoAllocator())
	if err != nil {
		return err
	}
	d.columns = map[int]*pqarrow.ColumnReader{}
	for column := range d.types {
		at, ok := holds.Columns().ColumnOf(sources[column])
		if !ok || sources[column].GetPartition() {
			continue
		}
		stored := holds.Columns().Schema.Columns[at].Path[0]
		field := slices.IndexFunc(reader.Manifest.Fields, func(f pqarrow.SchemaField) bool {
			return f.Field.Name == stored
		})
		if field < 0 {
			return fmt.Errorf("column %s is not found by arrow's reader", sources[column].GetName())
		}
		if d.columns[column], err = reader.GetColumn(ctx, field); err != nil {
			return err
		}
	}
	return nil
}

func (d *decimals) close() {
	for _, c := range d.columns {
		c.Release()
	}
	d.columns = nil
}

// explainDecimals makes an error of a panic, which some corrupt files cause in arrow's reader, and names the file.
func explainDecimals(name string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("arrow's reader panicked: %v", r)
	}
	if *err != nil {
		*err = fmt.Errorf("%s: its decimals cannot be read: %w%s", name, *err, notRead)
	}
}

// next are the next values of a column, of which workers' decoders have floats.
func (d *decimals) next(column int, floats *vector.Vector, name string) (_ arrow.Array, err error) {
	defer explainDecimals(name, &err)
	b := array.NewDecimal128Builder(memory.NewGoAllocator(), d.types[column])
	c := d.columns[column]
	if c == nil {
		return ofFloats(b, floats, d.types[column])
	}
	chunked, err := c.NextBatch(int64(floats.Rows))
	if err != nil {
		return nil, err
	}
	for _, chunk := range chunked.Chunks() {
		if err := appendDecimals(b, chunk, d.types[column]); err != nil {
			return nil, err
		}
	}
	if b.Len() != floats.Rows {
		return nil, fmt.Errorf("arrow's reader gave %d of %d rows", b.Len(), floats.Rows)
	}
	return b.NewArray(), nil
}

// appendDecimals appends decimals of another scale, or whole numbers, that a column was before it was widened.
func appendDecimals(b *array.Decimal128Builder, from arrow.Array, to *arrow.Decimal128Type) error {
	var value func(i int) decimal128.Num
	scale := int32(0)
	switch from := from.(type) {
	case *array.Decimal128:
		value, scale = from.Value, from.DataType().(*arrow.Decimal128Type).Scale
	case *array.Int8:
		value = func(i int) decimal128.Num { return decimal128.FromI64(int64(from.Value(i))) }
	case *array.Int16:
		value = func(i int) decimal128.Num { return decimal128.FromI64(int64(from.Value(i))) }
	case *array.Int32:
		value = func(i int) decimal128.Num { return decimal128.FromI64(int64(from.Value(i))) }
	case *array.Int64:
		value = func(i int) decimal128.Num { return decimal128.FromI64(from.Value(i)) }
	default:
		return fmt.Errorf("it has %v where its table has %v", from.DataType(), to)
	}
	for i := range from.Len() {
		if from.IsNull(i) {
			b.AppendNull()
			continue
		}
		v, err := value(i).Rescale(scale, to.Scale)
		if err != nil || !v.FitsInPrecision(to.Precision) {
			return fmt.Errorf("%s has more digits than %v", value(i).ToString(scale), to)
		}
		b.Append(v)
	}
	return nil
}

// ofFloats makes decimals of floats that are exact: those of partitions.
func ofFloats(b *array.Decimal128Builder, floats *vector.Vector, to *arrow.Decimal128Type) (arrow.Array, error) {
	for i := range floats.Rows {
		if floats.IsNull(i) {
			b.AppendNull()
			continue
		}
		text := strconv.FormatFloat(floats.F64[i], 'f', int(to.Scale), 64)
		v, err := decimal128.FromString(text, to.Precision, to.Scale)
		if err != nil {
			return nil, fmt.Errorf("%s is no %v: %w", text, to, err)
		}
		b.Append(v)
	}
	return b.NewArray(), nil
}
