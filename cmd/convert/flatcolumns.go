package convert

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// lay adds what becomes of a column of the inputs.
func (f *flattening) lay(l *layout, i int) {
	if f.structs[i] {
		for _, s := range f.spots[i] {
			if structOf(s.typ) == nil {
				f.layLeaf(l, s)
			}
		}
		return
	}
	left := map[string]*flatMap{}
	for _, s := range f.spots[i] {
		if m := f.mapAt(s); m != nil {
			left[fmt.Sprint(s.fields)] = m
			l.keys(m)
		}
	}
	if len(left) == 0 {
		l.columns = append(l.columns, f.inputs.columns[i])
		return
	}
	field := f.inputs.columns[i].field
	r := &replacing{left}
	l.columns = append(l.columns, column{
		arrow.Field{Name: field.Name, Type: r.typ(field.Type, nil), Nullable: true},
		func(group []arrow.Record) (values []arrow.Array, err error) {
			for part, rec := range group {
				a, err := r.values(rec.Column(i), nil, part)
				if err != nil {
					return nil, err
				}
				values = append(values, a)
			}
			return values, nil
		},
	})
}

// layLeaf adds a field of structs.
func (f *flattening) layLeaf(l *layout, s spot) {
	m := f.mapAt(s)
	field := arrow.Field{Name: s.name(), Type: s.written(), Nullable: true}
	if m == nil {
		l.columns = append(l.columns, column{field, each(s.of)})
		return
	}
	l.keys(m)
	l.columns = append(l.columns, column{field, func(group []arrow.Record) (values []arrow.Array, err error) {
		values = make([]arrow.Array, len(group))
		for part := range group {
			if values[part], err = m.left(part); err != nil {
				return nil, err
			}
		}
		return values, nil
	}})
}

func (f *flattening) mapAt(s spot) *flatMap {
	at := slices.IndexFunc(f.maps, func(m *flatMap) bool {
		return m.column == s.column && slices.Equal(m.fields, s.fields)
	})
	if at < 0 {
		return nil
	}
	return f.maps[at]
}

// keys adds the columns of a map's keys.
func (l *layout) keys(m *flatMap) {
	l.begins = append(l.begins, m.begin)
	for key, names := range m.names {
		for side, name := range names {
			l.columns = append(l.columns, column{
				arrow.Field{Name: name, Type: m.side(side), Nullable: true},
				func([]arrow.Record) ([]arrow.Array, error) { return m.values(key, side) },
			})
		}
	}
}

// replacing has, by the fields that lead to them, the maps of a column of which keys became columns.
type replacing struct{ maps map[string]*flatMap }

// typ is the type of a field at a path.
func (r *replacing) typ(t arrow.DataType, fields []int) arrow.DataType {
	if m := r.maps[fmt.Sprint(fields)]; m != nil {
		return m.written()
	}
	s, ok := t.(*arrow.StructType)
	if !ok {
		return t
	}
	below := slices.Clone(s.Fields())
	for i := range below {
		below[i].Type = r.typ(below[i].Type, append(slices.Clip(fields), i))
	}
	return arrow.StructOf(below...)
}

// values are those of a field at a path, of a record of the row group.
func (r *replacing) values(a arrow.Array, fields []int, part int) (arrow.Array, error) {
	if m := r.maps[fmt.Sprint(fields)]; m != nil {
		return m.left(part)
	}
	s, ok := a.(*array.Struct)
	if !ok {
		return a, nil
	}
	var all spans
	all.take(0, 0, a.Len())
	valid, nulls := gatherValid([]arrow.Array{a}, all, a.Len())
	below := make([]arrow.ArrayData, s.NumField())
	for i := range below {
		values, err := r.values(s.Field(i), append(slices.Clip(fields), i), part)
		if err != nil {
			return nil, err
		}
		below[i] = values.Data()
	}
	return array.MakeFromData(array.NewData(r.typ(a.DataType(), fields), a.Len(), []*memory.Buffer{valid}, below, nulls,
		0)), nil
}
