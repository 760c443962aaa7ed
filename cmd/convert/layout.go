package convert

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

// layout is which columns an output has, in their order, and how they come from the inputs' records.
type layout struct {
	columns []column
	// begins are told of each row group before its columns are made, and of none when it is written.
	begins []func(group []arrow.Record) error
}

// column is one of an output.
type column struct {
	field arrow.Field
	// values makes its values of the records of a row group.
	values func(group []arrow.Record) ([]arrow.Array, error)
}

// asTheyAre has the columns of the inputs.
func asTheyAre(inputs *arrow.Schema) *layout {
	l := &layout{}
	for i, f := range inputs.Fields() {
		l.columns = append(l.columns, column{f, each(func(rec arrow.Record) (arrow.Array, error) {
			return rec.Column(i), nil
		})})
	}
	return l
}

// each makes the values of a row group record by record.
func each(of func(arrow.Record) (arrow.Array, error)) func([]arrow.Record) ([]arrow.Array, error) {
	return func(group []arrow.Record) (values []arrow.Array, err error) {
		values = make([]arrow.Array, len(group))
		for i, rec := range group {
			if values[i], err = of(rec); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
}

// begin says which row group is made next; nil: none.
func (l *layout) begin(group []arrow.Record) error {
	for _, begin := range l.begins {
		if err := begin(group); err != nil {
			return err
		}
	}
	return nil
}

func (l *layout) schema() *arrow.Schema {
	fields := make([]arrow.Field, len(l.columns))
	for i, c := range l.columns {
		fields[i] = c.field
	}
	return arrow.NewSchema(fields, nil)
}

// without lacks columns, which the folders of partitions stand for.
func (l *layout) without(names []string) *layout {
	columns := slices.DeleteFunc(slices.Clone(l.columns), func(c column) bool {
		return slices.Contains(names, c.field.Name)
	})
	return &layout{columns, l.begins}
}
