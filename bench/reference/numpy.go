package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// npy is an array of NumPy. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
type npy struct {
	kind     pb.Kind
	unsigned bool // uint64, of which the bits are those of INT64
	shape    []int32
	data     []byte
}

var npyHead = regexp.MustCompile( //nolint:gochecknoglobals // a constant
	`^\{'descr': '([<|])(\w\d)', 'fortran_order': (False|True), 'shape': \(([\d, ]*)\), ?\}\s*$`)

func parseNpy(data []byte) (a npy, err error) {
	bad := errors.New("it is no array that is read")
	if len(data) < 12 || string(data[:6]) != "\x93NUMPY" {
		return a, bad
	}
	from, length := 10, int(binary.LittleEndian.Uint16(data[8:]))
	if data[6] > 1 {
		from, length = 12, int(binary.LittleEndian.Uint32(data[8:]))
	}
	if length > len(data)-from {
		return a, bad
	}
	head := npyHead.FindStringSubmatch(string(data[from : from+length]))
	if head == nil {
		return a, bad
	}
	a.kind = map[string]pb.Kind{
		"b1": pb.Kind_BOOL, "i1": pb.Kind_INT8, "i2": pb.Kind_INT16, "i4": pb.Kind_INT32, "i8": pb.Kind_INT64,
		"u1": pb.Kind_UINT8, "u2": pb.Kind_UINT16, "u4": pb.Kind_UINT32, "u8": pb.Kind_INT64, "f2": pb.Kind_FLOAT16,
		"f4": pb.Kind_FLOAT32, "f8": pb.Kind_FLOAT64,
	}[head[2]]
	a.unsigned, a.data = head[2] == "u8", data[from+length:]
	n := int64(1)
	for dim := range strings.SplitSeq(head[4], ",") {
		if dim = strings.TrimSpace(dim); dim == "" {
			continue
		}
		d, err := strconv.ParseInt(dim, 10, 31)
		if err != nil {
			return a, err
		}
		if a.shape = append(a.shape, int32(d)); d > 0 && n > int64(len(data)) {
			return a, bad
		}
		n *= d
	}
	if a.kind == pb.Kind_KIND_UNSPECIFIED || head[3] == "True" && len(a.shape) > 1 ||
		n*int64(spec.Width(a.kind)) != int64(len(a.data)) {
		return a, fmt.Errorf("%w: type %s, shape %v", bad, head[2], a.shape)
	}
	return a, nil
}
