package convert

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/cmd/convert/encode"
)

// parquetEncoder writes Parquet.
type parquetEncoder struct {
	files *encode.Encoder // nil before the first
}

func (e *parquetEncoder) open() bool { return e.files != nil && e.files.Open() }

// begin begins a file.
func (e *parquetEncoder) begin(to io.Writer, l *layout) (err error) {
	defer explainWrite(&err)
	if e.files == nil {
		if e.files, err = encode.New(l.schema()); err != nil {
			return err
		}
	}
	return e.files.Begin(to)
}

// rowGroup writes a row group, unless it has no rows.
func (e *parquetEncoder) rowGroup(l *layout, group []arrow.Record) (err error) {
	defer explainWrite(&err)
	if len(group) == 0 {
		return nil
	}
	if err := l.begin(group); err != nil {
		return err
	}
	rows := int64(0)
	for _, rec := range group {
		rows += rec.NumRows()
	}
	e.files.RowGroup(rows)
	for i, c := range l.columns {
		values, err := c.values(group)
		if err == nil {
			err = e.files.Column(i, values)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.field.Name, err)
		}
	}
	return l.begin(nil)
}

// end ends the file.
func (e *parquetEncoder) end() (err error) {
	defer explainWrite(&err)
	return e.files.End()
}

// abandon forgets a file that was not ended.
func (e *parquetEncoder) abandon() {
	if e.open() {
		e.files.Abandon()
	}
}

// explainWrite makes an error of what values do that contradict themselves: nothing checks all of an Arrow file.
func explainWrite(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the values are damaged: %v", r)
	}
	if *err != nil {
		*err = fmt.Errorf("write Parquet: %w", *err)
	}
}
