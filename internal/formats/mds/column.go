package mds

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Column is one of a shard.
type Column struct {
	Name, Encoding string
	Size           int // of each value, in bytes; 0: it differs
	Class          Class
	// Kind is that of numbers; unspecified for arrays that say it themselves, before one was seen.
	Kind     pb.Kind
	Unsigned bool    // the numbers are uint64, and Kind is INT64
	Shape    []int32 // of arrays; nil: each says its own
	Dims     int     // of arrays whose shapes differ; 0: none was seen
	SaysKind bool    // each array says its kind
}

// Class says how the bytes of a value are read.
type Class uint8

// The classes.
const (
	Bytes  Class = iota // as they are
	Text                // UTF-8
	JSON                // UTF-8, and a document of JSON, whose fields are columns, too
	Number              // as in memory, little endian
	Digits              // a whole number as text
	Float               // a number as text
	Array               // numbers, and what of their shape and kind is not fixed in front of them
	Many                // byte strings: an unused uint32, their number, their sizes, and they
	Photos              // byte strings: their number, their sizes, and they
	Unread              // cannot be read
)

const (
	arrayOpens = "ndarray"
	uint64Name = "uint64"
)

// numbers are the encodings of numbers, and the kinds of arrays.
func numbers(name string) (kind pb.Kind, ok bool) {
	if name == uint64Name {
		return pb.Kind_INT64, true
	}
	kind = spec.KindNamed(name)
	return kind, spec.Width(kind) > 0 && kind != pb.Kind_BOOL && kind != pb.Kind_BFLOAT16
}

// resolve reads the encoding.
func (c *Column) resolve() error {
	if kind, ok := numbers(c.Encoding); ok {
		c.Class, c.Kind, c.Unsigned = Number, kind, c.Encoding == uint64Name
		return c.fixed(spec.Width(kind))
	}
	switch name, args, _ := strings.Cut(c.Encoding, ":"); name {
	case "bytes", "jpeg", "png", "pkl":
		c.Class = Bytes
	case "str", "str_decimal":
		c.Class = Text
	case "json":
		c.Class = JSON
	case "int":
		c.Class, c.Kind = Number, pb.Kind_INT64
		return c.fixed(8)
	case "str_int":
		c.Class, c.Kind = Digits, pb.Kind_INT64
	case "str_float":
		c.Class, c.Kind = Float, pb.Kind_FLOAT64
	case "list[jpeg]", "list[png]":
		c.Class = Many
	case "jpeg_array":
		c.Class = Photos
	case arrayOpens:
		return c.array(args)
	default:
		c.Class = Unread
	}
	return nil
}

func (c *Column) fixed(size int) error {
	if c.Size != size {
		return fmt.Errorf("it has values of %d bytes, and %s of %d: the file is damaged", c.Size, c.Encoding, size)
	}
	return nil
}

// array reads "int32:2,3", of which all may be missing.
func (c *Column) array(args string) error {
	c.Class, c.SaysKind = Array, args == ""
	if args == "" {
		return nil
	}
	kind, shape, _ := strings.Cut(args, ":")
	ok := false
	if c.Kind, ok = numbers(kind); !ok {
		return fmt.Errorf("its encoding %s has no kind of numbers: the file is damaged", c.Encoding)
	}
	c.Unsigned = kind == uint64Name
	if shape == "" {
		return nil
	}
	size := int64(spec.Width(c.Kind))
	for dim := range strings.SplitSeq(shape, ",") {
		n, err := strconv.ParseInt(dim, 10, 32)
		if err != nil || n < 1 || size*n > 1<<31-1 || len(c.Shape) > spec.MaxNested {
			return fmt.Errorf("its encoding %s has a shape that cannot be: the file is damaged", c.Encoding)
		}
		c.Shape, size = append(c.Shape, int32(n)), size*n
	}
	c.Dims = len(c.Shape)
	return c.fixed(int(size))
}

// NDArray is a value of the class Array.
type NDArray struct {
	Kind     pb.Kind
	Unsigned bool
	Shape    []int32
	Values   []byte
}

var errArray = errors.New("its array is cut short, or does not have the values of its shape")

// ArrayOf reads an array.
func (c *Column) ArrayOf(value []byte) (a NDArray, err error) {
	a = NDArray{Kind: c.Kind, Unsigned: c.Unsigned, Shape: c.Shape, Values: value}
	if c.SaysKind {
		if len(value) == 0 {
			return a, errArray
		}
		if a.Kind, a.Unsigned, err = kindOf(value[0]); err != nil {
			return a, err
		}
		a.Values = a.Values[1:]
	}
	if a.Shape == nil {
		if a.Shape, a.Values, err = shapeOf(a.Values); err != nil {
			return a, err
		}
	}
	if slices.Contains(a.Shape, 0) {
		return a, a.checkEmpty()
	}
	size := int64(spec.Width(a.Kind))
	for _, n := range a.Shape {
		if size *= int64(n); size > int64(len(a.Values)) {
			return a, errArray
		}
	}
	if size != int64(len(a.Values)) {
		return a, errArray
	}
	return a, nil
}

// maxEmpty bounds the lists of an array without values, which no bytes stand for.
const maxEmpty = 1 << 10

// checkEmpty fails for an array without values that has any, or whose lists are too many.
func (a *NDArray) checkEmpty() error {
	if len(a.Values) > 0 {
		return errArray
	}
	lists := int64(1)
	for _, n := range a.Shape {
		if n == 0 {
			break
		}
		if lists *= int64(n); lists > maxEmpty {
			return fmt.Errorf("its array has the shape %v, which are more than %d lists without values: write it with "+
				"0 as its first dimension", a.Shape, maxEmpty)
		}
	}
	return nil
}

// kindOf is the kind that a byte stands for: the bits of a number, plus one for signed integers and two for floats.
func kindOf(code byte) (kind pb.Kind, unsigned bool, err error) {
	switch code {
	case 8:
		return pb.Kind_UINT8, false, nil
	case 9:
		return pb.Kind_INT8, false, nil
	case 16:
		return pb.Kind_UINT16, false, nil
	case 17:
		return pb.Kind_INT16, false, nil
	case 18:
		return pb.Kind_FLOAT16, false, nil
	case 32:
		return pb.Kind_UINT32, false, nil
	case 33:
		return pb.Kind_INT32, false, nil
	case 34:
		return pb.Kind_FLOAT32, false, nil
	case 64:
		return pb.Kind_INT64, true, nil
	case 65:
		return pb.Kind_INT64, false, nil
	case 66:
		return pb.Kind_FLOAT64, false, nil
	}
	return 0, false, fmt.Errorf("its array is of kind %d, which no array has", code)
}

// shapeOf reads a shape: a byte with the number of dimensions, times four, and how wide each is, and these.
func shapeOf(value []byte) (shape []int32, rest []byte, err error) {
	if len(value) == 0 {
		return nil, nil, errArray
	}
	dims, width := int(value[0]>>2), 1<<(value[0]&3)
	value = value[1:]
	if dims == 0 || dims > spec.MaxNested+1 || len(value) < dims*width {
		return nil, nil, errArray
	}
	for range dims {
		n := uint64(0)
		for i, b := range value[:width] {
			n |= uint64(b) << (8 * i)
		}
		if n > 1<<31-1 {
			return nil, nil, errArray
		}
		shape, value = append(shape, int32(n)), value[width:]
	}
	return shape, value, nil
}

// column is what specs see.
func (c *Column) column() spec.Column {
	out := spec.Column{Name: c.Name, Path: []string{c.Name}, Type: spec.Type{Kind: pb.Kind_BINARY}}
	switch c.Class {
	case Text, JSON:
		out.Text = true
	case Number, Digits, Float:
		out.Type.Kind = c.Kind
	case Many, Photos:
		out.Type.List = true
	case Array:
		if out.Type = (spec.Type{Kind: c.Kind, List: true, Nested: uint32(max(1, c.Dims) - 1)}); c.Dims == 0 {
			out.Untyped, out.Unsupported = true, format.UntypedList
		}
		out.Shape = slices.Clone(c.Shape)
	case Unread:
		out.Unsupported = fmt.Sprintf("its encoding %s cannot be read: write it as jpeg, png or bytes", c.Encoding)
	}
	if spec.Small(out.Type.Kind) {
		out.Own, out.Type.Kind = out.Type.Kind, spec.StandIn(out.Type.Kind)
	}
	if c.Unsigned {
		out.Meaning = format.Unsigned
	}
	return out
}
