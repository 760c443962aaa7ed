package convert

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
)

// Formats other than Parquet and Arrow do not keep all types: JSON has no dates, and MDS no structs. To verify what was
// written, the inputs' columns become what a reader finds in their place (asWritten), and the output is read with the
// types that it does not say itself (readBack).

// readBack is how an output is read.
type readBack struct {
	format  *pb.Format
	columns []string // that are read; nil: all
	fields  []arrow.Field
	values  []func(arrow.Array) (arrow.Array, error) // by column of the inputs; nil: as they are
}

// readBackOf is how the output of inputs with a schema is read; nil: as it is.
func readBackOf(o *Options, inputs *arrow.Schema) (*readBack, error) {
	switch o.To {
	case asLines, asTar, asMDS:
	default:
		return nil, nil //nolint:nilnil // it keeps all types
	}
	if len(o.Flatten) > 0 {
		return nil, fmt.Errorf("--verify reads what --flatten made in Parquet and Arrow, not in %s: leave one out",
			o.To)
	}
	r := &readBack{format: &pb.Format{Name: o.To, Columns: map[string]string{}}}
	inFolders := map[string]bool{}
	for _, name := range o.PartitionBy {
		inFolders[name] = true
	}
	for _, f := range inputs.Fields() {
		var values func(arrow.Array) (arrow.Array, error)
		var err error
		if !inFolders[f.Name] {
			if f, values, err = r.field(o.To, f); err != nil {
				return nil, fmt.Errorf("--verify: column %s: %w", f.Name, err)
			}
		}
		r.fields, r.values = append(r.fields, f), append(r.values, values)
	}
	if o.To == asLines {
		r.columns = nil // there are no others
	}
	return r, nil
}

// field is what a column of the inputs is in the output.
func (r *readBack) field(to string, f arrow.Field) (arrow.Field, func(arrow.Array) (arrow.Array, error), error) {
	if to == asMDS {
		of, values := mdsAsRead(f.Type)
		r.columns = append(r.columns, f.Name) // not the fields of its JSON
		return arrow.Field{Name: f.Name, Type: of, Nullable: true}, values, nil
	}
	if to == asTar {
		if namesSamples(f) {
			r.columns = append(r.columns, f.Name)
			return f, nil, nil
		}
		name, err := tarName(f)
		if err != nil {
			return f, nil, err
		}
		f.Name = name
	}
	of := asJSONHas(f.Type)
	if to == asTar && isBytes(f.Type) {
		of = arrow.BinaryTypes.Binary
	}
	values := func(a arrow.Array) (arrow.Array, error) { return retyped(a, of) }
	return arrow.Field{Name: f.Name, Type: of, Nullable: true}, values, r.declare(f.Name, of, 0, false)
}

var (
	errMapBack  = errors.New("it has a map, whose keys are names of objects in JSON: leave --verify out")
	errListBack = errors.New("it has lists of structs within lists, or lists in these, which are not read back: " +
		"leave --verify out")
)

// declare says of which type a column is, or each field of structs.
func (r *readBack) declare(name string, t arrow.DataType, levels int, inList bool) error {
	switch t := t.(type) {
	case *arrow.MapType:
		return errMapBack
	case *arrow.StructType:
		if levels > 1 {
			return errListBack
		}
		for _, f := range t.Fields() {
			if err := r.declare(name+"."+f.Name, f.Type, levels, inList || levels > 0); err != nil {
				return err
			}
		}
		return nil
	case *arrow.ListType:
		if inList {
			return errListBack
		}
		return r.declare(name, t.Elem(), levels+1, false)
	}
	kind := t.Name()
	switch t.ID() {
	case arrow.STRING:
		kind = "string"
	case arrow.BINARY:
		kind = "binary"
	}
	r.format.Columns[name] = strings.Repeat("list<", levels) + kind + strings.Repeat(">", levels)
	r.columns = append(r.columns, name)
	return nil
}

// asJSONHas is the type that a reader of JSON finds, if it is told what a file does not say.
func asJSONHas(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case *arrow.MapType:
		return t // which is refused
	case arrow.ListLikeType:
		return arrow.ListOf(asJSONHas(t.Elem()))
	case *arrow.StructType:
		fields := make([]arrow.Field, len(t.Fields()))
		for i, f := range t.Fields() {
			fields[i] = arrow.Field{Name: f.Name, Type: asJSONHas(f.Type), Nullable: true}
		}
		return arrow.StructOf(fields...)
	}
	switch id := t.ID(); {
	case id == arrow.UINT64:
		return arrow.PrimitiveTypes.Int64
	case id == arrow.FLOAT16:
		return arrow.PrimitiveTypes.Float32
	case id == arrow.BOOL, arrow.IsInteger(id), isFloat(t):
		return t
	}
	return arrow.BinaryTypes.String
}

// mdsAsRead is the type that a reader of MDS finds, and how values become it.
func mdsAsRead(t arrow.DataType) (arrow.DataType, func(arrow.Array) (arrow.Array, error)) {
	of := arrow.DataType(arrow.BinaryTypes.String)
	_, number := mdsNumber(t)
	switch list, _ := t.(arrow.ListLikeType); {
	case number > 0:
		return t, nil
	case t.ID() == arrow.BOOL:
		of = arrow.PrimitiveTypes.Uint8
	case isBytes(t):
		of = arrow.BinaryTypes.Binary
	case npyDescr(t) != "":
		of = arrow.ListOf(list.Elem())
	case isNested(t):
		return of, func(a arrow.Array) (arrow.Array, error) { return eachText(a, jsonOf) }
	}
	return of, func(a arrow.Array) (arrow.Array, error) { return retyped(a, of) }
}

// retyped gives values another type, at any depth.
func retyped(a arrow.Array, to arrow.DataType) (arrow.Array, error) {
	from := a.DataType()
	switch {
	case arrow.TypeEqual(from, to):
		return a, nil
	case to.ID() == arrow.STRING:
		return eachText(a, func(a arrow.Array, row int) ([]byte, error) { return []byte(inWords(a, row)), nil })
	case to.ID() == arrow.BINARY:
		return eachBytes(a)
	case from.ID() == arrow.UINT64:
		return array.MakeFromData(withType(a.Data(), to)), nil
	case from.ID() == arrow.FLOAT16:
		b := array.NewFloat32Builder(memory.NewGoAllocator())
		for i, v := range a.(*array.Float16).Values() {
			appendOr(a.IsValid(i), b, func() { b.Append(v.Float32()) })
		}
		return b.NewArray(), nil
	case from.ID() == arrow.BOOL:
		b := array.NewUint8Builder(memory.NewGoAllocator())
		for i := range a.Len() {
			appendOr(a.IsValid(i), b, func() { b.Append(map[bool]uint8{true: 1}[a.(*array.Boolean).Value(i)]) })
		}
		return b.NewArray(), nil
	}
	switch a := a.(type) {
	case *array.Struct:
		return retypedStruct(a, to.(*arrow.StructType))
	case array.ListLike:
		return retypedList(a, to.(*arrow.ListType))
	}
	return nil, fmt.Errorf("%v is not read back as %v", from, to)
}

func appendOr(valid bool, b array.Builder, value func()) {
	if valid {
		value()
	} else {
		b.AppendNull()
	}
}

func retypedStruct(a *array.Struct, to *arrow.StructType) (arrow.Array, error) {
	children := make([]arrow.ArrayData, a.NumField())
	for i := range children {
		child, err := retyped(a.Field(i), to.Field(i).Type)
		if err != nil {
			return nil, err
		}
		children[i] = child.Data()
	}
	return array.MakeFromData(array.NewData(to, a.Len(), []*memory.Buffer{validOf(a)}, children, a.NullN(), 0)), nil
}

func retypedList(a array.ListLike, to *arrow.ListType) (arrow.Array, error) {
	values, err := retyped(a.ListValues(), to.Elem())
	if err != nil {
		return nil, err
	}
	b := array.NewInt32Builder(memory.NewGoAllocator())
	var parts []arrow.Array // what null lists may have is left out
	at := int32(0)
	b.Append(0)
	for i := range a.Len() {
		if a.IsValid(i) {
			from, end := a.ValueOffsets(i)
			parts = append(parts, array.NewSlice(values, from, end))
			at += int32(end - from)
		}
		b.Append(at)
	}
	child := array.NewSlice(values, 0, 0)
	if len(parts) > 0 {
		if child, err = array.Concatenate(parts, memory.NewGoAllocator()); err != nil {
			return nil, err
		}
	}
	offsets := b.NewInt32Array().Data().Buffers()[1]
	data := array.NewData(to, a.Len(), []*memory.Buffer{validOf(a), offsets}, []arrow.ArrayData{child.Data()},
		a.NullN(), 0)
	return array.MakeFromData(data), nil
}

// validOf is a bitmap of which values are not null; nil: none is.
func validOf(a arrow.Array) *memory.Buffer {
	if a.NullN() == 0 {
		return nil
	}
	words := make([]uint64, (a.Len()+63)/64)
	for i := range a.Len() {
		if a.IsValid(i) {
			words[i/64] |= 1 << (i % 64)
		}
	}
	bits, _ := bitsOf(words, a.Len())
	return bits
}

// eachText makes text of each value that is not null.
func eachText(a arrow.Array, of func(arrow.Array, int) ([]byte, error)) (arrow.Array, error) {
	b := array.NewStringBuilder(memory.NewGoAllocator())
	for i := range a.Len() {
		if isNone(a, i) {
			b.AppendNull()
			continue
		}
		text, err := of(a, i)
		if err != nil {
			return nil, err
		}
		b.Append(string(text))
	}
	return b.NewArray(), nil
}

func eachBytes(a arrow.Array) (arrow.Array, error) {
	b := array.NewBinaryBuilder(memory.NewGoAllocator(), arrow.BinaryTypes.Binary)
	for i := range a.Len() {
		if isNone(a, i) {
			b.AppendNull()
			continue
		}
		data, err := rawBytes(a, i)
		if err != nil {
			return nil, err
		}
		b.Append(data)
	}
	return b.NewArray(), nil
}

// asWritten is a source of what a reader of the output finds.
type asWritten struct {
	source
	as     *arrow.Schema
	values []func(arrow.Array) (arrow.Array, error)
}

func (r *readBack) of(src source) source {
	return asWritten{src, arrow.NewSchema(r.fields, nil), r.values}
}

func (w asWritten) schema() *arrow.Schema { return w.as }

func (w asWritten) next(ctx context.Context, limit int64) (arrow.Record, error) {
	rec, err := w.source.next(ctx, limit)
	if err != nil {
		return nil, err
	}
	columns := make([]arrow.Array, rec.NumCols())
	for i := range columns {
		if columns[i] = rec.Column(i); w.values[i] == nil {
			continue
		}
		if columns[i], err = w.values[i](columns[i]); err != nil {
			return nil, fmt.Errorf("column %s: %w", rec.ColumnName(i), err)
		}
	}
	return array.NewRecord(w.as, columns, rec.NumRows()), nil
}
