package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// decode reads a batch of valid rows and padding, checks every value of it, and returns the rows' ids and the number of
// all rows.
func decode(stream []byte, valid int) (ids []int64, rows int, err error) {
	rd, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		return nil, 0, fmt.Errorf("rows: %w", err)
	}
	defer rd.Release()
	if !rd.Next() {
		return nil, 0, fmt.Errorf("rows: no record: %w", rd.Err())
	}
	rec, err := nullable(rd.Record())
	if err != nil {
		return nil, 0, err
	}
	defer rec.Release()
	var label *array.Int64
	if at := rec.Schema().FieldIndices("label"); len(at) == 1 {
		label, _ = rec.Column(at[0]).(*array.Int64)
	}
	if label == nil {
		return nil, 0, fmt.Errorf("rows: schema %v has no int64 label", rec.Schema())
	}
	if valid < 0 || valid > label.Len() {
		return nil, 0, fmt.Errorf("rows: %d of %d are valid", valid, label.Len())
	}
	ids = slices.Clone(label.Int64Values()[:valid])
	real, padding := rec.NewSlice(0, int64(valid)), rec.NewSlice(int64(valid), rec.NumRows())
	defer real.Release()
	defer padding.Release()
	if err := checkValues(real, ids); err != nil {
		return nil, 0, err
	}
	if zeros := fake.Padding(int(padding.NumRows())); !array.RecordEqual(padding, zeros) {
		return nil, 0, fmt.Errorf("padding is %v, expected %v", padding, zeros)
	}
	if rd.Next() {
		return nil, 0, errors.New("rows: more than one record")
	}
	return ids, int(rec.NumRows()), nil
}

// nullable is a record whose lists may hold nulls, as those of fake.Schema.
func nullable(rec arrow.Record) (arrow.Record, error) {
	schema := fake.Schema()
	columns := make([]arrow.Array, schema.NumFields())
	for i, f := range schema.Fields() {
		if i >= int(rec.NumCols()) || rec.ColumnName(i) != f.Name ||
			strings.ReplaceAll(fmt.Sprint(rec.Column(i).DataType()), ", nullable", "") !=
				strings.ReplaceAll(fmt.Sprint(f.Type), ", nullable", "") {
			return nil, fmt.Errorf("rows: schema %v, expected %v", rec.Schema(), schema)
		}
		data := retyped(rec.Column(i).Data(), f.Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
		defer columns[i].Release()
	}
	return array.NewRecord(schema, columns, rec.NumRows()), nil
}

// retyped is data of a type that differs in what may be null.
func retyped(d arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	children := slices.Clone(d.Children())
	if nested, ok := t.(arrow.NestedType); ok {
		for i, f := range nested.Fields() {
			children[i] = retyped(children[i], f.Type)
			defer children[i].Release()
		}
	}
	return array.NewData(t, d.Len(), d.Buffers(), children, d.NullN(), d.Offset())
}

// checkValues compares a record with the one that its ids stand for.
func checkValues(rec arrow.Record, ids []int64) error {
	rows := make([]fake.Row, len(ids))
	for i, id := range ids {
		rows[i] = fake.RowOf(id)
	}
	want := fake.Rows(rows)
	defer want.Release()
	if !array.RecordEqual(rec, want) {
		return fmt.Errorf("the rows with ids %v have other values than those; got %v, expected %v", ids, rec, want)
	}
	return nil
}
