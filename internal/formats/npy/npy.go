// Package npy reads arrays as NumPy writes them, which several formats have: in members of tars, and as files of token
// ids. Nothing in them is trusted.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Header is what stands in front of an array's values.
type Header struct {
	Kind    pb.Kind
	Meaning string  // of its integers: those of uint64 are bits
	Shape   []int64 // in C's order
	From    int     // where the values begin, little endian
}

// Array is an array.
type Array struct {
	Kind    pb.Kind
	Meaning string
	Shape   []int32
	Data    []byte
}

const (
	magic = "\x93NUMPY"
	// maxHeader bounds what stands in front of an array's values.
	maxHeader = 64 << 10
)

// fields are those of a header: a dictionary as Python writes it, whose names NumPy sorts.
var fields = regexp.MustCompile(
	`^\{\s*'descr':\s*(?:'([^']*)'|(\[.*\])),\s*'fortran_order':\s*(True|False),\s*'shape':\s*\(([0-9, ]*)\),?\s*\}\s*$`)

var (
	errNone   = errors.New("it is no array of NumPy")
	errFields = errors.New("its array has fields, which are not read")
	errOrder  = errors.New("its array is in Fortran's order, which is not read: write it by numpy.ascontiguousarray")
)

// Is reports whether data begins as an array does.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }

// HeaderOf reads the header of an array, of which the data are the front, or all.
func HeaderOf(data []byte) (h Header, err error) {
	text, err := h.cut(data)
	if err != nil {
		return h, err
	}
	found := fields.FindSubmatch(text)
	switch {
	case found == nil:
		return h, errNone
	case len(found[2]) > 0:
		return h, errFields
	}
	if h.Kind, h.Meaning, err = typeOf(string(found[1])); err != nil {
		return h, err
	}
	for field := range bytes.SplitSeq(found[4], []byte(",")) {
		if field = bytes.TrimSpace(field); len(field) == 0 {
			continue
		}
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return h, errNone
		}
		h.Shape = append(h.Shape, n)
	}
	if string(found[3]) == "True" && len(h.Shape) > 1 {
		return h, errOrder
	}
	return h, nil
}

// cut finds the header's text, and where it ends.
func (h *Header) cut(data []byte) (text []byte, err error) {
	if !Is(data) || len(data) < 12 {
		return nil, errNone
	}
	from, n := 10, int64(binary.LittleEndian.Uint16(data[8:]))
	if data[6] > 1 {
		from, n = 12, int64(binary.LittleEndian.Uint32(data[8:]))
	}
	if n > maxHeader || n > int64(len(data)-from) {
		return nil, errNone
	}
	h.From = from + int(n)
	return data[from:h.From], nil
}

// Parse reads an array that is all there.
func Parse(data []byte) (a Array, err error) {
	h, err := HeaderOf(data)
	if err != nil {
		return a, err
	}
	a = Array{Kind: h.Kind, Meaning: h.Meaning, Data: data[h.From:]}
	size := int64(spec.Width(a.Kind))
	for _, n := range h.Shape {
		if n > math.MaxInt32 || size*n > math.MaxInt32 {
			return a, fmt.Errorf("its array has the shape %v, which is more than there is of it", h.Shape)
		}
		a.Shape, size = append(a.Shape, int32(n)), size*n
	}
	if int64(len(a.Data)) != size {
		return a, fmt.Errorf("its array has the shape %v, which are %d bytes of %s, but there are %d", a.Shape, size,
			spec.KindName(a.Kind), len(a.Data))
	}
	return a, nil
}

// kindOf is the kind of a type of NumPy, without its order of bytes.
func kindOf(name string) (k pb.Kind, ok bool) {
	switch name {
	case "b1":
		k = pb.Kind_BOOL
	case "i1":
		k = pb.Kind_INT8
	case "i2":
		k = pb.Kind_INT16
	case "i4":
		k = pb.Kind_INT32
	case "i8", "u8":
		k = pb.Kind_INT64
	case "u1":
		k = pb.Kind_UINT8
	case "u2":
		k = pb.Kind_UINT16
	case "u4":
		k = pb.Kind_UINT32
	case "f2":
		k = pb.Kind_FLOAT16
	case "f4":
		k = pb.Kind_FLOAT32
	case "f8":
		k = pb.Kind_FLOAT64
	}
	return k, k != pb.Kind_KIND_UNSPECIFIED
}

func typeOf(descr string) (pb.Kind, string, error) {
	if len(descr) < 2 {
		return 0, "", errNone
	}
	kind, ok := kindOf(descr[1:])
	switch {
	case !ok:
		return 0, "", fmt.Errorf("its array is of type %q, which is not read", descr)
	case descr[0] == '>':
		return 0, "", fmt.Errorf("its array is big endian (%q), which is not read: write it by "+
			"array.astype(array.dtype.newbyteorder('<'))", descr)
	case descr[1:] == "u8":
		return kind, format.Unsigned, nil
	}
	return kind, "", nil
}
