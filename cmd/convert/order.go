package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
)

// Order says how an output's columns follow each other.
type Order struct {
	// From tells where it comes from. A conversion that goes on keeps the order of its finished files.
	From string
	// Begin, if not nil, is called before Of, and before keys of maps are counted, which may take long. Neither is
	// called where a conversion goes on.
	Begin func(context.Context) error `json:"-"`
	// Of returns the columns' places in the order in which they are to lie. The sample is a Parquet file of the first
	// row group, with the columns as they are given.
	Of func(ctx context.Context, columns []string, sample func() ([]byte, error)) ([]int, error) `json:"-"`
}

// orderOf asks for the order of an output's columns; nil is theirs.
func orderOf(ctx context.Context, o Options, src source, l *layout) ([]int, error) {
	if o.Order == nil {
		return nil, nil
	}
	return o.Order.Of(ctx, l.names(), func() ([]byte, error) { return sample(ctx, o, src, l) })
}

// sample encodes the first row group of the inputs, which are then at their beginning again.
func sample(ctx context.Context, o Options, src source, l *layout) ([]byte, error) {
	var group []arrow.Record
	c := cutter{groupRows: o.RowGroupRows, groupBytes: o.RowGroupBytes, fileRows: o.FileRows}
	for ends := false; !ends; {
		rec, err := src.next(ctx, min(batchRows, c.room()))
		if errors.Is(err, errEnd) {
			break
		}
		if err != nil {
			return nil, err
		}
		group = append(group, rec)
		ends, _ = c.add("", rec.NumRows(), sizeOf(rec))
	}
	var out bytes.Buffer
	var enc parquetEncoder
	defer enc.abandon()
	if err := enc.begin(&out, l); err != nil {
		return nil, err
	}
	if err := enc.rowGroup(l, group); err != nil {
		return nil, err
	}
	if err := enc.end(); err != nil {
		return nil, err
	}
	return out.Bytes(), src.seek(ctx, 0)
}

// arrange puts the columns in an order; nil is theirs.
func (l *layout) arrange(order []int) error {
	if order == nil {
		return nil
	}
	columns, seen := make([]column, 0, len(l.columns)), make([]bool, len(l.columns))
	for _, c := range order {
		if c < 0 || c >= len(seen) || seen[c] {
			break
		}
		seen[c] = true
		columns = append(columns, l.columns[c])
	}
	if len(columns) != len(l.columns) || len(order) != len(columns) {
		return fmt.Errorf("an order of %d columns does not have each of the %d once: give --restart if an earlier run "+
			"left it", len(order), len(l.columns))
	}
	l.columns = columns
	return nil
}

func (l *layout) names() []string {
	out := make([]string, len(l.columns))
	for i, c := range l.columns {
		out[i] = c.field.Name
	}
	return out
}

// described are the columns as "name: type".
func (l *layout) described() []string {
	out := make([]string, len(l.columns))
	for i, c := range l.columns {
		out[i] = fmt.Sprintf("%s: %v", c.field.Name, c.field.Type)
	}
	return out
}
