package client

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
)

// parseTensor reads a tensor of fixed shape, which has type t, or the values of padded rows, which have.
func parseTensor(c column, f arrow.Field, t arrow.DataType) (column, error) {
	dtype, _ := f.Metadata.GetValue(tensors.Dtype)
	kind := pb.Kind(pb.Kind_value[strings.ToUpper(dtype)])
	elem, ok := tensors.Element(kind)
	if !ok || spec.KindName(kind) != dtype {
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
	if c.fill, err = valueOf(c.dtype, c.value); err != nil {
		return c, fmt.Errorf("metadata penstock.value is %q; expected a value of %s", c.value, c.dtype)
	}
	return c, nil
}

// valueOf is the bytes of a value of a dtype.
func valueOf(dtype, text string) ([]byte, error) {
	width := spec.Width(pb.Kind(pb.Kind_value[strings.ToUpper(dtype)]))
	var bits uint64
	var err error
	switch {
	case dtype == "bool":
		var is bool
		if is, err = strconv.ParseBool(text); is {
			bits = 1
		}
	case strings.HasPrefix(dtype, "int"):
		var n int64
		n, err = strconv.ParseInt(text, 10, 8*width)
		bits = uint64(n)
	case strings.HasPrefix(dtype, "uint"):
		bits, err = strconv.ParseUint(text, 10, 8*width)
	default:
		var x float64
		x, err = strconv.ParseFloat(text, 64)
		bits = floatBits(dtype, x)
	}
	return binary.LittleEndian.AppendUint64(nil, bits)[:width], err
}

func floatBits(dtype string, x float64) uint64 {
	switch dtype {
	case "float16":
		return uint64(half(x, 10))
	case "bfloat16":
		return uint64(half(x, 7))
	case "float32":
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(x)
}

// half is the float of 16 bits, so many of them its fraction's, that is nearest to x, or the even one of two.
func half(x float64, fraction int) uint16 {
	sign, infinity := uint16(math.Float64bits(x)>>48)&0x8000, uint16(0x7fff)&^(1<<fraction-1)
	switch {
	case x == 0:
		return sign
	case math.IsNaN(x):
		return sign | infinity | 1<<(fraction-1)
	case math.IsInf(x, 0):
		return sign | infinity
	}
	bias := 1<<(14-fraction) - 1
	_, exponent := math.Frexp(x)
	exponent = max(exponent-1, 1-bias) // subnormal numbers have that of the least normal one
	last := math.RoundToEven(math.Ldexp(math.Abs(x), fraction-exponent))
	// The bit before the fraction, which only normal numbers have, counts the exponent up, and so does a carry.
	bits := int(last) + (exponent+bias-1)<<fraction
	return sign | uint16(min(bits, int(infinity)))
}
