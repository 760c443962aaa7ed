package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// decode reads a batch, checks every value of it, and returns its rows' ids.
func decode(stream []byte) ([]int64, error) {
	rd, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	defer rd.Release()
	if !rd.Next() {
		return nil, fmt.Errorf("rows: no record: %w", rd.Err())
	}
	rec := rd.Record()
	var label *array.Int64
	if at := rec.Schema().FieldIndices("label"); len(at) == 1 {
		label, _ = rec.Column(at[0]).(*array.Int64)
	}
	if label == nil {
		return nil, fmt.Errorf("rows: schema %v has no int64 label", rec.Schema())
	}
	ids := slices.Clone(label.Int64Values())
	if err := checkValues(rec, ids); err != nil {
		return nil, err
	}
	if rd.Next() {
		return nil, errors.New("rows: more than one record")
	}
	return ids, nil
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
