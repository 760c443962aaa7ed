package convert

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
)

// layout is which columns an output has, in their order, and how they come from the inputs' records.
type layout struct{ columns []column }

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
		l.columns = append(l.columns, column{f, func(group []arrow.Record) ([]arrow.Array, error) {
			values := make([]arrow.Array, len(group))
			for at, rec := range group {
				values[at] = rec.Column(i)
			}
			return values, nil
		}})
	}
	return l
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
	return &layout{columns: slices.DeleteFunc(slices.Clone(l.columns), func(c column) bool {
		return slices.Contains(names, c.field.Name)
	})}
}
