package reference

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/pb"
)

// Names of the provenance columns.
const (
	fileColumn = "_file"
	rowColumn  = "_row"
)

// Records hashes the rows of delivered record batches.
type Records struct {
	hasher    *Hasher
	columns   []int // of the record, in the order of hashing
	add       []addFunc
	file, row int
}

// addFunc adds row i of an array to the hash.
type addFunc func(h *Hasher, col arrow.Array, i int)

// NewRecords prepares for batches of the given schema, which must have the provenance columns _file and _row.
func NewRecords(schema *arrow.Schema) (*Records, error) {
	r := &Records{file: -1, row: -1}
	var fields []Field
	place := map[string]int{}
	for i, f := range schema.Fields() {
		switch f.Name {
		case fileColumn:
			r.file = i
			continue
		case rowColumn:
			r.row = i
			continue
		}
		field, err := fieldOf(f)
		if err != nil {
			return nil, fmt.Errorf("reference: batch column %s: %w", f.Name, err)
		}
		fields = append(fields, field)
		place[f.Name] = i
	}
	if r.file < 0 || r.row < 0 {
		return nil, fmt.Errorf("reference: batches lack the columns %s and %s: set `provenance: true` in the spec",
			fileColumn, rowColumn)
	}
	r.hasher = NewHasher(fields)
	sortFields(fields)
	for _, f := range fields {
		r.columns = append(r.columns, place[f.Name])
		r.add = append(r.add, adder(f))
	}
	return r, nil
}

// Each calls add with each row of a batch.
func (r *Records) Each(rec arrow.Record, add func(file int32, row int64, hash uint64) error) error {
	files, ok := rec.Column(r.file).(*array.Int32)
	rows, ok2 := rec.Column(r.row).(*array.Int64)
	if !ok || !ok2 {
		return fmt.Errorf("reference: provenance columns are %v and %v; want int32 and int64",
			rec.Column(r.file).DataType(), rec.Column(r.row).DataType())
	}
	for i := range int(rec.NumRows()) {
		r.hasher.Reset()
		for k, c := range r.columns {
			r.add[k](r.hasher, rec.Column(c), i)
		}
		if err := add(files.Value(i), rows.Value(i), r.hasher.Sum()); err != nil {
			return err
		}
	}
	return nil
}

// fieldOf reads what a batch's column is from its type and metadata.
func fieldOf(f arrow.Field) (Field, error) {
	meta := func(key string) string {
		v, _ := f.Metadata.GetValue(key)
		return v
	}
	out := Field{Name: f.Name}
	switch layout := meta("penstock.layout"); layout {
	case "dense":
		out.Layout, out.Kind = pb.Layout_DENSE, pb.Kind_FLOAT32
		if err := json.Unmarshal([]byte(meta("penstock.names")), &out.Columns); err != nil {
			return out, fmt.Errorf("penstock.names: %w", err)
		}
		want := arrow.FixedSizeListOfNonNullable(int32(len(out.Columns)), arrow.PrimitiveTypes.Float32)
		return out, wantType(f.Type, want)
	case "sparse":
		return sparseField(out, f)
	case "label":
		out.Layout = pb.Layout_LABEL
		var ok bool
		if out.Kind, ok = labelKinds()[f.Type.ID()]; !ok {
			return out, fmt.Errorf("a label of type %v", f.Type)
		}
		return out, nil
	case "bytes":
		out.Layout, out.Kind = pb.Layout_BYTES, pb.Kind_BINARY
		return out, wantType(f.Type, arrow.BinaryTypes.Binary)
	case "image":
		return imageField(out, f, meta("penstock.shape"))
	case "tensor":
		out.Layout = pb.Layout_TENSOR
		return out, shapedField(&out, f.Type, meta)
	case "padded":
		out.Layout = pb.Layout_PADDED
		return out, paddedField(&out, f.Type, meta)
	default:
		return out, fmt.Errorf("unknown layout %q", layout)
	}
}

func sparseField(out Field, f arrow.Field) (Field, error) {
	out.Layout = pb.Layout_SPARSE
	list, ok := f.Type.(*arrow.ListType)
	if !ok {
		return out, fmt.Errorf("is %v; want a list", f.Type)
	}
	elem := list.Elem()
	if pair, ok := elem.(*arrow.StructType); ok && len(pair.Fields()) == 2 {
		out.Weighted = true
		elem = pair.Field(0).Type
		if err := wantType(pair.Field(1).Type, arrow.PrimitiveTypes.Float32); err != nil {
			return out, err
		}
	}
	switch elem.ID() {
	case arrow.INT64:
		out.Kind = pb.Kind_INT64
	case arrow.FLOAT32:
		out.Kind = pb.Kind_FLOAT32
	default:
		return out, fmt.Errorf("elements are %v; want int64 or float32", elem)
	}
	return out, nil
}

func imageField(out Field, f arrow.Field, shape string) (Field, error) {
	out.Layout, out.Kind = pb.Layout_IMAGE, pb.Kind_BINARY
	var err error
	if out.Shape, err = parseShape(shape); err != nil {
		return out, err
	}
	return out, wantType(f.Type, arrow.FixedSizeListOfNonNullable(int32(size(out.Shape)), arrow.PrimitiveTypes.Uint8))
}

func parseShape(text string) (shape []int32, err error) {
	for s := range strings.SplitSeq(text, ",") {
		d, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("penstock.shape %q: %w", text, err)
		}
		shape = append(shape, int32(d))
	}
	return shape, nil
}

// wantType compares types as far as they matter for values: names and nullability of elements do not.
func wantType(have, want arrow.DataType) error {
	h, ok := have.(*arrow.FixedSizeListType)
	w, ok2 := want.(*arrow.FixedSizeListType)
	if ok && ok2 && h.Len() == w.Len() && arrow.TypeEqual(h.Elem(), w.Elem()) || arrow.TypeEqual(have, want) {
		return nil
	}
	return fmt.Errorf("is %v; want %v", have, want)
}

func labelKinds() map[arrow.Type]pb.Kind {
	return map[arrow.Type]pb.Kind{
		arrow.BOOL: pb.Kind_BOOL, arrow.INT32: pb.Kind_INT32, arrow.INT64: pb.Kind_INT64,
		arrow.FLOAT32: pb.Kind_FLOAT32, arrow.FLOAT64: pb.Kind_FLOAT64,
	}
}

// adder returns how a field's rows are added.
func adder(f Field) addFunc {
	switch f.Layout {
	case pb.Layout_DENSE:
		return addDense
	case pb.Layout_SPARSE:
		return addSparse
	case pb.Layout_IMAGE:
		return addImage
	case pb.Layout_TENSOR:
		return func(h *Hasher, col arrow.Array, i int) { addShaped(h, f.Kind, col, i) }
	case pb.Layout_PADDED:
		return func(h *Hasher, col arrow.Array, i int) {
			pair := col.(*array.Struct)
			h.Len(int(pair.Field(1).(*array.Int32).Value(i)))
			addShaped(h, f.Kind, pair.Field(0), i)
		}
	case pb.Layout_BYTES:
		return func(h *Hasher, col arrow.Array, i int) { h.Bytes(col.(*array.Binary).Value(i)) }
	}
	return addLabel
}

func addDense(h *Hasher, col arrow.Array, i int) {
	list := col.(*array.FixedSizeList)
	from, to := list.ValueOffsets(i)
	for _, x := range list.ListValues().(*array.Float32).Float32Values()[from:to] {
		h.Float32(x)
	}
}

func addSparse(h *Hasher, col arrow.Array, i int) {
	list := col.(*array.List)
	from, to := list.ValueOffsets(i)
	h.Len(int(to - from))
	values := list.ListValues()
	var weights []float32
	if pair, ok := values.(*array.Struct); ok {
		values, weights = pair.Field(0), pair.Field(1).(*array.Float32).Float32Values()
	}
	ints, _ := values.(*array.Int64)
	floats, _ := values.(*array.Float32)
	for j := from; j < to; j++ {
		if ints != nil {
			h.Int(ints.Value(int(j)))
		} else {
			h.Float32(floats.Value(int(j)))
		}
		if weights != nil {
			h.Float32(weights[j])
		}
	}
}

func addImage(h *Hasher, col arrow.Array, i int) {
	list := col.(*array.FixedSizeList)
	from, to := list.ValueOffsets(i)
	h.Bytes(list.ListValues().(*array.Uint8).Uint8Values()[from:to])
}

func addLabel(h *Hasher, col arrow.Array, i int) {
	switch col := col.(type) {
	case *array.Boolean:
		if col.Value(i) {
			h.Int(1)
		} else {
			h.Int(0)
		}
	case *array.Int32:
		h.Int(int64(col.Value(i)))
	case *array.Int64:
		h.Int(col.Value(i))
	case *array.Float32:
		h.Float32(col.Value(i))
	case *array.Float64:
		h.Float64(col.Value(i))
	}
}
