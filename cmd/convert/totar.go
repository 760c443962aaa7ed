package convert

import (
	"archive/tar"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// tarEncoder writes tars as WebDataset has them: a row is files of one name, which is its number, and each column that
// is not null there is one of these, whose extension is the column's name. Bytes and texts are as they are, and all
// else is as JSON has it.
type tarEncoder struct {
	file *tar.Writer
	row  int64 // of all files, that comes next
}

func (e *tarEncoder) open() bool { return e.file != nil }

func (e *tarEncoder) begin(to io.Writer, l *layout) error {
	for _, c := range l.columns {
		if name := c.field.Name; name == "" || name != strings.ToLower(name) || strings.ContainsAny(name, "/\\\x00") {
			return fmt.Errorf("column %q: its name is to be an extension of files in a tar, which has small letters "+
				"and no slash: rename it", name)
		}
	}
	e.file = tar.NewWriter(to)
	return nil
}

func (e *tarEncoder) rowGroup(l *layout, group []arrow.Record) error {
	records, err := l.recordsOf(group)
	if err != nil {
		return err
	}
	for _, rec := range records {
		for row := range int(rec.NumRows()) {
			if !slices.ContainsFunc(rec.Columns(), func(a arrow.Array) bool { return a.IsValid(row) }) {
				return fmt.Errorf("row %d is null in all columns, and would have no file in a tar: leave it out", e.row)
			}
			for i, a := range rec.Columns() {
				if err := e.member(rec.ColumnName(i), a, row); err != nil {
					return fmt.Errorf("column %s: %w", rec.ColumnName(i), err)
				}
			}
			e.row++
		}
	}
	return nil
}

func (e *tarEncoder) member(name string, a arrow.Array, row int) (err error) {
	if a.IsNull(row) {
		return nil
	}
	var data []byte
	if text, ok := a.(array.BinaryLike); ok {
		data = textOf(text, row)
	} else if fixed, ok := a.(*array.FixedSizeBinary); ok {
		data = fixed.Value(row)
	} else if data, err = jsonOf(a, row); err != nil {
		return err
	}
	err = e.file.WriteHeader(&tar.Header{
		Name: fmt.Sprintf("%09d.%s", e.row, name), Size: int64(len(data)), Mode: 0o444, ModTime: time.Unix(0, 0),
	})
	if err == nil {
		_, err = e.file.Write(data)
	}
	return err
}

func (e *tarEncoder) end() error {
	err := e.file.Close()
	e.file = nil
	return err
}

func (e *tarEncoder) abandon() { e.file = nil }
