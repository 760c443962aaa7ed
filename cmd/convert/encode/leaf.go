package encode

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// leaf is a column as Parquet has it: values of a column of Arrow, or of what that holds.
type leaf struct {
	path           []string
	steps          []step // from the column's array to the leaf's
	kind           kind
	maxDef, maxRep byte
}

// step goes from an array to what it holds, or looks at its nulls.
type step int

const (
	optional step = -1 - iota // there may be nulls
	required                  // there are none
	repeated                  // to the values of lists
	// a number of 0 and more is that of a struct's field
)

// leavesOf are the leaves of a type, in the order in which Parquet has them.
func leavesOf(name string, t arrow.DataType, nullable bool) ([]*leaf, error) {
	first := &leaf{path: []string{name}, steps: []step{required}}
	if nullable {
		first.steps[0] = optional
		first.maxDef++
	}
	return first.below(t)
}

// below are the leaves of a type to which these steps led.
func (l *leaf) below(t arrow.DataType) ([]*leaf, error) {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return l.below(t.StorageType())
	case *arrow.StructType:
		return l.fields(t.Fields())
	case *arrow.MapType:
		return l.list("key_value").fields([]arrow.Field{
			{Name: "key", Type: t.KeyType()},
			{Name: "value", Type: t.ItemType(), Nullable: t.ItemField().Nullable},
		})
	case *arrow.ListType:
		return l.list("list").field("element", 0, true, false).below(t.Elem())
	case *arrow.FixedSizeListType:
		return l.list("list").field("element", 0, true, false).below(t.Elem())
	}
	k, ok := kindOf(t)
	if !ok {
		return nil, fmt.Errorf("%v is not written: leave it out, or cast it", t)
	}
	l.kind = k
	return []*leaf{l}, nil
}

func (l *leaf) list(name string) *leaf {
	return &leaf{
		path: append(l.path[:len(l.path):len(l.path)], name), maxDef: l.maxDef + 1, maxRep: l.maxRep + 1,
		steps: append(l.steps[:len(l.steps):len(l.steps)], repeated),
	}
}

// field goes to a field, of a struct or of the one that elements are of.
func (l *leaf) field(name string, i int, nullable, ofStruct bool) *leaf {
	to := &leaf{
		path: append(l.path[:len(l.path):len(l.path)], name), steps: l.steps[:len(l.steps):len(l.steps)],
		maxDef: l.maxDef, maxRep: l.maxRep,
	}
	if ofStruct {
		to.steps = append(to.steps, step(i))
	}
	if !nullable {
		to.steps = append(to.steps, required)
		return to
	}
	to.steps = append(to.steps, optional)
	to.maxDef++
	return to
}

func (l *leaf) fields(fields []arrow.Field) (all []*leaf, err error) {
	for i, f := range fields {
		some, err := l.field(f.Name, i, f.Nullable, true).below(f.Type)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// follow goes the steps with n rows of a column, and returns the array of the leaf's values.
func (l *leaf) follow(a arrow.Array, from, n int, s *slots) (arrow.Array, error) {
	s.begin(from, n, l.maxRep > 0)
	for _, to := range l.steps {
		if x, ok := a.(array.ExtensionArray); ok {
			a = x.Storage()
		}
		switch to {
		case optional:
			s.optional(a)
		case required:
			if s.hasNulls(a) {
				return nil, fmt.Errorf("%s has a null, which it may not have: leave such rows out",
					strings.Join(l.path, "."))
			}
		case repeated:
			lists := a.(array.ListLike)
			if err := s.repeated(lists); err != nil {
				return nil, err
			}
			a = lists.ListValues()
		default:
			a = a.(*array.Struct).Field(int(to))
		}
	}
	if x, ok := a.(array.ExtensionArray); ok {
		a = x.Storage()
	}
	return a, nil
}

// describe encodes a schema for footers, and checks that the leaves are its.
func describe(s *arrow.Schema, columns [][]*leaf) ([]byte, error) {
	props := parquet.NewWriterProperties(parquet.WithVersion(parquet.V2_LATEST))
	described, err := pqarrow.ToParquet(s, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	i := 0
	for _, leaves := range columns {
		for _, l := range leaves {
			d := described.Column(i)
			if int16(l.maxDef) != d.MaxDefinitionLevel() || int16(l.maxRep) != d.MaxRepetitionLevel() ||
				int32(d.PhysicalType()) != int32(l.kind.physical) {
				return nil, fmt.Errorf("column %s is not as it is described", d.Path())
			}
			l.path = d.ColumnPath()
			i++
		}
	}
	return schemaOf(s, props)
}

// schemaOf cuts the schema out of the footer of a file without rows, of Arrow's own writer.
func schemaOf(s *arrow.Schema, props *parquet.WriterProperties) ([]byte, error) {
	var empty bytes.Buffer
	w, err := pqarrow.NewFileWriter(s, &empty, props, pqarrow.DefaultWriterProps())
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	footer := empty.Bytes()[len(magic):]
	r := thrift.NewReader(footer)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		from := r.Pos()
		r.Skip(f)
		if f == 2<<4|thrift.List && r.Err() == nil {
			return footer[from:r.Pos()], nil
		}
	}
	return nil, errors.New("arrow's writer describes no schema")
}
