// Package tensors is the schema of the record batches that workers send and trainers receive: what a program's outputs
// become, and the metadata that says which tensor each column is. worker/tensor lays them out, client reads them, and a
// rank that gets no rows makes padding by the same schema; docs/internals/tensors.md is the format's page. Everything
// is a pure function.
package tensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Keys of the columns' metadata.
const (
	Layout = "penstock.layout" // dense, sparse, label, bytes, image, tensor, padded, provenance
	Names  = "penstock.names"  // dense: JSON array of the D column names
	Shape  = "penstock.shape"  // image: "H,W,C" or "C,H,W"; tensor: of a row, "" of scalars; padded: the length
	Dtype  = "penstock.dtype"  // tensor, padded: "float16", which the Arrow type does not say of bool and bfloat16
	Value  = "penstock.value"  // padded: what rows are filled with, see FormatValue
	Side   = "penstock.side"   // padded: where that lies, "left" or "right"
)

// Names of the provenance columns.
const (
	FileColumn = "_file"
	RowColumn  = "_row"
	PartColumn = "_part" // of programs that may make more rows than they get
)

// Schema of the record batches of a program's tensors.
func Schema(p *pb.Program) (*arrow.Schema, error) {
	var fields []arrow.Field
	for _, o := range p.GetOutputs() {
		f, err := field(o)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", o.GetName(), err)
		}
		fields = append(fields, f)
	}
	if p.GetProvenance() {
		metadata := arrow.NewMetadata([]string{Layout}, []string{"provenance"})
		fields = append(fields,
			arrow.Field{Name: FileColumn, Type: arrow.PrimitiveTypes.Int32, Metadata: metadata},
			arrow.Field{Name: RowColumn, Type: arrow.PrimitiveTypes.Int64, Metadata: metadata})
		if spec.HasParts(p) {
			fields = append(fields, arrow.Field{Name: PartColumn, Type: arrow.PrimitiveTypes.Int32, Metadata: metadata})
		}
	}
	if len(fields) == 0 {
		return nil, errors.New("tensor: the program has no outputs")
	}
	return arrow.NewSchema(fields, nil), nil
}

func field(o *pb.Output) (f arrow.Field, err error) {
	f.Name = o.GetName()
	keys, values := []string{Layout}, []string{strings.ToLower(o.GetLayout().String())}
	switch o.GetLayout() {
	case pb.Layout_DENSE:
		names, _ := json.Marshal(o.GetColumns()) // strings always marshal
		keys, values = append(keys, Names), append(values, string(names))
		f.Type, err = dense(o)
	case pb.Layout_SPARSE:
		f.Type, err = sparse(o)
	case pb.Layout_LABEL:
		f.Type, err = label(o)
	case pb.Layout_BYTES:
		if f.Type = arrow.BinaryTypes.Binary; o.GetType().GetList() {
			f.Type = arrow.ListOfNonNullable(arrow.BinaryTypes.Binary)
		}
	case pb.Layout_IMAGE:
		keys, values = append(keys, Shape), append(values, shape(o))
		f.Type, err = image(o)
	case pb.Layout_TENSOR:
		keys, values = append(keys, Shape, Dtype), append(values, shape(o), spec.KindName(o.GetType().GetKind()))
		f.Type, err = tensor(o)
	case pb.Layout_PADDED:
		keys = append(keys, Shape, Dtype, Value, Side)
		values = append(values, shape(o), spec.KindName(o.GetType().GetKind()), FormatValue(o.GetFill()), side(o))
		f.Type, err = padded(o)
	default:
		err = fmt.Errorf("unknown layout %v: this release of penstock is older than the master's", o.GetLayout())
	}
	f.Metadata = arrow.NewMetadata(keys, values)
	return f, err
}

func dense(o *pb.Output) (arrow.DataType, error) {
	n := len(o.GetSlots())
	if n == 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%d columns", n)
	}
	return arrow.FixedSizeListOfNonNullable(int32(n), arrow.PrimitiveTypes.Float32), nil
}

func sparse(o *pb.Output) (arrow.DataType, error) {
	var elem arrow.DataType
	switch o.GetType().GetKind() {
	case pb.Kind_INT64:
		elem = arrow.PrimitiveTypes.Int64
	case pb.Kind_FLOAT32:
		elem = arrow.PrimitiveTypes.Float32
	default:
		return nil, fmt.Errorf("jagged values of kind %v", o.GetType().GetKind())
	}
	if o.Weights != nil {
		elem = arrow.StructOf(
			arrow.Field{Name: "value", Type: elem},
			arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32})
	}
	return arrow.ListOfNonNullable(elem), nil
}

func label(o *pb.Output) (arrow.DataType, error) {
	switch o.GetType().GetKind() {
	case pb.Kind_BOOL:
		return arrow.FixedWidthTypes.Boolean, nil
	case pb.Kind_INT32:
		return arrow.PrimitiveTypes.Int32, nil
	case pb.Kind_INT64:
		return arrow.PrimitiveTypes.Int64, nil
	case pb.Kind_FLOAT32:
		return arrow.PrimitiveTypes.Float32, nil
	case pb.Kind_FLOAT64:
		return arrow.PrimitiveTypes.Float64, nil
	}
	return nil, fmt.Errorf("label of kind %v", o.GetType().GetKind())
}

// shape writes an output's as metadata has it.
func shape(o *pb.Output) string {
	parts := make([]string, len(o.GetShape()))
	for i, n := range o.GetShape() {
		parts[i] = strconv.Itoa(int(n))
	}
	return strings.Join(parts, ",")
}

func side(o *pb.Output) string {
	if o.GetLeft() {
		return "left"
	}
	return "right"
}

// Element is the Arrow type of a tensor's values. Bools are bytes, so that rows begin at one, and bfloat16 is what it
// lies in.
func Element(k pb.Kind) (arrow.DataType, bool) {
	t, ok := map[pb.Kind]arrow.DataType{
		pb.Kind_BOOL: arrow.PrimitiveTypes.Uint8, pb.Kind_INT8: arrow.PrimitiveTypes.Int8,
		pb.Kind_INT16: arrow.PrimitiveTypes.Int16, pb.Kind_INT32: arrow.PrimitiveTypes.Int32,
		pb.Kind_INT64: arrow.PrimitiveTypes.Int64, pb.Kind_UINT8: arrow.PrimitiveTypes.Uint8,
		pb.Kind_UINT16: arrow.PrimitiveTypes.Uint16, pb.Kind_UINT32: arrow.PrimitiveTypes.Uint32,
		pb.Kind_FLOAT16: arrow.FixedWidthTypes.Float16, pb.Kind_BFLOAT16: arrow.PrimitiveTypes.Uint16,
		pb.Kind_FLOAT32: arrow.PrimitiveTypes.Float32, pb.Kind_FLOAT64: arrow.PrimitiveTypes.Float64,
	}[k]
	return t, ok
}

func tensor(o *pb.Output) (arrow.DataType, error) {
	elem, ok := Element(o.GetType().GetKind())
	if !ok {
		return nil, fmt.Errorf("tensor of kind %v", o.GetType().GetKind())
	}
	if len(o.GetShape()) == 0 {
		return elem, nil
	}
	n := spec.Count(o.GetShape(), spec.Width(o.GetType().GetKind()))
	if n == 0 {
		return nil, fmt.Errorf("shape %v", o.GetShape())
	}
	return arrow.FixedSizeListOfNonNullable(int32(n), elem), nil
}

func padded(o *pb.Output) (arrow.DataType, error) {
	if len(o.GetShape()) != 1 {
		return nil, fmt.Errorf("shape %v; want [length]", o.GetShape())
	}
	values, err := tensor(o)
	if err != nil {
		return nil, err
	}
	return arrow.StructOf(
		arrow.Field{Name: "values", Type: values},
		arrow.Field{Name: "length", Type: arrow.PrimitiveTypes.Int32}), nil
}

func image(o *pb.Output) (arrow.DataType, error) {
	size := spec.Count(o.GetShape(), 1)
	if size == 0 {
		return nil, fmt.Errorf("shape %v", o.GetShape())
	}
	if len(o.GetShape()) != 3 {
		return nil, fmt.Errorf("shape %v; want [H, W, C]", o.GetShape())
	}
	if o.GetType().GetKind() == pb.Kind_FLOAT32 {
		return arrow.FixedSizeListOfNonNullable(int32(size), arrow.PrimitiveTypes.Float32), nil
	}
	return arrow.FixedSizeListOfNonNullable(int32(size), arrow.PrimitiveTypes.Uint8), nil
}
