package reference

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/pb"
)

// wireTypes are the Arrow types of tensors' values. Bools are bytes, 0 and 1, and bfloat16 lies in integers.
func wireTypes() map[pb.Kind]arrow.DataType {
	return map[pb.Kind]arrow.DataType{
		pb.Kind_BOOL: arrow.PrimitiveTypes.Uint8,
		pb.Kind_INT8: arrow.PrimitiveTypes.Int8, pb.Kind_INT16: arrow.PrimitiveTypes.Int16,
		pb.Kind_INT32: arrow.PrimitiveTypes.Int32, pb.Kind_INT64: arrow.PrimitiveTypes.Int64,
		pb.Kind_UINT8: arrow.PrimitiveTypes.Uint8, pb.Kind_UINT16: arrow.PrimitiveTypes.Uint16,
		pb.Kind_UINT32:  arrow.PrimitiveTypes.Uint32,
		pb.Kind_FLOAT16: arrow.FixedWidthTypes.Float16, pb.Kind_BFLOAT16: arrow.PrimitiveTypes.Uint16,
		pb.Kind_FLOAT32: arrow.PrimitiveTypes.Float32, pb.Kind_FLOAT64: arrow.PrimitiveTypes.Float64,
	}
}

// shapedField reads the kind and the shape of values that lie in arrays of a type.
func shapedField(out *Field, t arrow.DataType, meta func(string) string) (err error) {
	dtype := meta("penstock.dtype")
	out.Kind = pb.Kind(pb.Kind_value[strings.ToUpper(dtype)])
	want, ok := wireTypes()[out.Kind]
	if !ok {
		return fmt.Errorf("penstock.dtype %q", dtype)
	}
	if shape := meta("penstock.shape"); shape != "" {
		if out.Shape, err = parseShape(shape); err != nil {
			return err
		}
		want = arrow.FixedSizeListOfNonNullable(int32(size(out.Shape)), want)
	}
	return wantType(t, want)
}

// paddedField reads also what rows are filled with, and where.
func paddedField(out *Field, t arrow.DataType, meta func(string) string) error {
	pair, ok := t.(*arrow.StructType)
	if !ok || len(pair.Fields()) != 2 || pair.Field(0).Name != "values" || pair.Field(1).Name != "length" {
		return fmt.Errorf("is %v; want a struct of values and length", t)
	}
	if err := wantType(pair.Field(1).Type, arrow.PrimitiveTypes.Int32); err != nil {
		return err
	}
	if err := shapedField(out, pair.Field(0).Type, meta); err != nil {
		return err
	}
	value, err := parseValue(meta("penstock.value"), out.Kind)
	if err != nil {
		return fmt.Errorf("penstock.value: %w", err)
	}
	out.Value = shownValue(value, out.Kind)
	side := meta("penstock.side")
	if out.Left = side == "left"; !out.Left && side != "right" {
		return fmt.Errorf("penstock.side %q", side)
	}
	if len(out.Shape) != 1 {
		return fmt.Errorf("penstock.shape %v; want one number", out.Shape)
	}
	return nil
}

func parseValue(text string, k pb.Kind) (*cell, error) {
	switch {
	case k == pb.Kind_BOOL:
		b, err := strconv.ParseBool(text)
		return &cell{ints: []int64{boolInt(b)}}, err
	case holdingOf(k) == storedFloats:
		x, err := strconv.ParseFloat(text, 64)
		return &cell{floats: []float64{nearest(x, k)}}, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return &cell{ints: []int64{n}}, err
}

// addShaped adds the values of row i, one or a fixed number of them.
func addShaped(h *Hasher, k pb.Kind, col arrow.Array, i int) {
	from, to := int64(i), int64(i)+1
	if list, ok := col.(*array.FixedSizeList); ok {
		from, to = list.ValueOffsets(i)
		col = list.ListValues()
	}
	for j := int(from); j < int(to); j++ {
		addValue(h, k, col, j)
	}
}

func addValue(h *Hasher, k pb.Kind, col arrow.Array, j int) {
	switch col := col.(type) {
	case *array.Int8:
		h.Int(int64(col.Value(j)))
	case *array.Int16:
		h.Int(int64(col.Value(j)))
	case *array.Int32:
		h.Int(int64(col.Value(j)))
	case *array.Int64:
		h.Int(col.Value(j))
	case *array.Uint8:
		h.Int(int64(col.Value(j)))
	case *array.Uint16:
		if k == pb.Kind_BFLOAT16 {
			h.Float32(float32(bfloat16(col.Value(j))))
		} else {
			h.Int(int64(col.Value(j)))
		}
	case *array.Uint32:
		h.Int(int64(col.Value(j)))
	case *array.Float16:
		h.Float32(float32(float16(col.Value(j).Uint16())))
	case *array.Float32:
		h.Float32(col.Value(j))
	case *array.Float64:
		h.Float64(col.Value(j))
	}
}
