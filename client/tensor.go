package client

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
)

// parseTensor reads a tensor of fixed shape, which has type t, or the values of padded rows, which have.
func parseTensor(c column, f arrow.Field, t arrow.DataType) (column, error) {
	dtype, _ := f.Metadata.GetValue(tensors.Dtype)
	kind := spec.KindNamed(dtype)
	elem, ok := tensors.Element(kind)
	if !ok {
		return c, fmt.Errorf("metadata penstock.dtype is %q; expected bool or a type of numbers", dtype)
	}
	shape, size, ok := parseShape(f, spec.Width(kind))
	if !ok {
		return c, wrongShape(f, "expected lengths like 2,3, or none")
	}
	c.role, c.dtype, c.shape = roleTensor, dtype, shape
	if c.elem, c.width = arrow.INT64, size; kind != pb.Kind_INT64 {
		c.elem, c.bytes, c.width = arrow.UINT8, spec.Width(kind), size*spec.Width(kind)
	}
	if len(shape) == 0 {
		return c, want(t.ID() == elem.ID(), t, elem.String())
	}
	list, ok := t.(*arrow.FixedSizeListType)
	switch {
	case !ok || list.Elem().ID() != elem.ID():
		return c, want(false, t, fmt.Sprintf("fixed_size_list<%v>", elem))
	case int(list.Len()) != size:
		return c, wrongShape(f, fmt.Sprintf("but a row has %d values", list.Len()))
	}
	return c, nil
}

func parsePadded(c column, f arrow.Field) (column, error) {
	t, ok := f.Type.(*arrow.StructType)
	if !ok || t.NumFields() != 2 || t.Field(1).Type.ID() != arrow.INT32 {
		return c, want(false, f.Type, "struct<values: fixed_size_list, length: int32>")
	}
	c, err := parseTensor(c, f, t.Field(0).Type)
	if err != nil {
		return c, err
	}
	if len(c.shape) != 1 {
		return c, wrongShape(f, "expected one length")
	}
	c.role = rolePadded
	side, _ := f.Metadata.GetValue(tensors.Side)
	if c.left = side == "left"; !c.left && side != "right" {
		return c, fmt.Errorf("metadata penstock.side is %q; expected left or right", side)
	}
	c.value, _ = f.Metadata.GetValue(tensors.Value)
	kind := spec.KindNamed(c.dtype)
	fill, err := tensors.ParseValue(c.value, kind)
	if err != nil {
		return c, fmt.Errorf("metadata penstock.value is %q; expected a value of %s", c.value, c.dtype)
	}
	c.fill = binary.LittleEndian.AppendUint64(nil, tensors.Bits(fill, kind))[:spec.Width(kind)]
	return c, nil
}
