package tar

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

// Array is an array as NumPy writes it.
type Array struct {
	Kind    pb.Kind
	Meaning string // of its integers: those of uint64 are bits
	Shape   []int32
	Data    []byte // in C's order, little endian
}

// maxNpyHeader bounds what stands in front of an array's bytes.
const maxNpyHeader = 64 << 10

// npyHeader is a dictionary as Python writes it, whose names NumPy sorts.
var npyHeader = regexp.MustCompile(
	`^\{\s*'descr':\s*(?:'([^']*)'|(\[.*\])),\s*'fortran_order':\s*(True|False),\s*'shape':\s*\(([0-9, ]*)\),?\s*\}\s*$`)

var (
	errNpy = errors.New("it is no array of NumPy: write it again, or declare it as binary in " +
		"dataset.format.columns")
	errNpyOrder = errors.New("its array is in Fortran's order, which is not read: write it by numpy.ascontiguousarray")
)

// ParseArray reads one. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
func ParseArray(data []byte) (a Array, err error) {
	head, rest, err := npyParts(data)
	if err != nil {
		return a, err
	}
	found := npyHeader.FindSubmatch(head)
	if found == nil {
		return a, errNpy
	}
	if len(found[2]) > 0 {
		return a, errors.New("its array has fields, which are not read: declare it as binary in " +
			"dataset.format.columns")
	}
	if a.Kind, a.Meaning, err = npyType(string(found[1])); err != nil {
		return a, err
	}
	if a.Shape, err = npyShape(found[4]); err != nil {
		return a, err
	}
	if string(found[3]) == "True" && len(a.Shape) > 1 {
		return a, errNpyOrder
	}
	bytes := int64(spec.Width(a.Kind))
	for _, n := range a.Shape {
		if bytes *= int64(n); bytes > math.MaxInt32 {
			return a, fmt.Errorf("its array has the shape %v, which is more than there is of it", a.Shape)
		}
	}
	if int64(len(rest)) != bytes {
		return a, fmt.Errorf("its array has the shape %v, which are %d bytes of %s, but there are %d", a.Shape, bytes,
			spec.KindName(a.Kind), len(rest))
	}
	a.Data = rest
	return a, nil
}

// npyParts are the header and the array's bytes.
func npyParts(data []byte) (head, rest []byte, err error) {
	if len(data) < 10 || !bytes.HasPrefix(data, []byte("\x93NUMPY")) {
		return nil, nil, errNpy
	}
	from, n := 10, int64(binary.LittleEndian.Uint16(data[8:]))
	if data[6] > 1 {
		if len(data) < 12 {
			return nil, nil, errNpy
		}
		from, n = 12, int64(binary.LittleEndian.Uint32(data[8:]))
	}
	if n > maxNpyHeader || n > int64(len(data)-from) {
		return nil, nil, errNpy
	}
	return data[from : from+int(n)], data[from+int(n):], nil
}

// npyKind is the kind of a type of NumPy, without its order of bytes.
func npyKind(name string) (k pb.Kind, ok bool) {
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

func npyType(descr string) (pb.Kind, string, error) {
	if len(descr) < 2 {
		return 0, "", errNpy
	}
	kind, ok := npyKind(descr[1:])
	switch {
	case !ok:
		return 0, "", fmt.Errorf("its array is of type %q, which is not read: declare it as binary in "+
			"dataset.format.columns", descr)
	case descr[0] == '>':
		return 0, "", fmt.Errorf("its array is big endian (%q), which is not read: write it by "+
			"array.astype(array.dtype.newbyteorder('<'))", descr)
	case descr[1:] == "u8":
		return kind, format.Unsigned, nil
	}
	return kind, "", nil
}

func npyShape(text []byte) (shape []int32, err error) {
	for _, field := range bytes.Split(text, []byte(",")) {
		if field = bytes.TrimSpace(field); len(field) == 0 {
			continue
		}
		n, err := strconv.ParseInt(string(field), 10, 32)
		if err != nil {
			return nil, errNpy
		}
		shape = append(shape, int32(n))
	}
	return shape, nil
}
