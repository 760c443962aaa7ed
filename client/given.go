package client

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/internal/wire"
)

// BatchOf copies a record in the wire's tensor layout to a batch, so that a program that serves a model reads what it
// is to answer as one that trains it. Package worker/apply makes such records.
func BatchOf(record arrow.Record) (*Batch, error) {
	l, err := parseLayout(record.Schema())
	if err != nil {
		return nil, err
	}
	from := &wire.Batch{Rows: record.NumRows()}
	for i, c := range record.Columns() {
		if err := takeApart(from, c.Data()); err != nil {
			return nil, fmt.Errorf("record: column %q: %w", record.ColumnName(i), err)
		}
	}
	w, err := l.bind(from)
	if err != nil {
		return nil, err
	}
	build := newBuffers(l, w.rows, nil)
	if err := build.append(w, 0, w.rows); err != nil {
		return nil, err
	}
	b := &Batch{Rows: w.rows, Valid: w.rows, buffers: build, spares: &spares{}}
	b.expose()
	return b, nil
}

// takeApart adds an array, and those below it, as Arrow's IPC has them.
func takeApart(to *wire.Batch, a arrow.ArrayData) error {
	if a.Offset() != 0 {
		return fmt.Errorf("it is a part of another array, from %d on; want a whole one", a.Offset())
	}
	to.Nodes = append(to.Nodes, wire.Node{Length: int64(a.Len()), Nulls: int64(a.NullN())})
	for _, b := range a.Buffers() {
		to.Buffers = append(to.Buffers, bytesOf(b))
		to.Bytes += int64(len(bytesOf(b)))
	}
	for _, child := range a.Children() {
		if err := takeApart(to, child); err != nil {
			return err
		}
	}
	return nil
}

func bytesOf(b *memory.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}
