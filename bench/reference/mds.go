package reference

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// mdsColumn is a column of a shard, as its header has it.
type mdsColumn struct {
	name, encoding string
	size           int // 0: it differs
}

// mdsSample is a record: the bytes of each column.
type mdsSample map[string]mdsValue

type mdsValue struct {
	encoding string
	data     []byte
}

var errShard = errors.New("the shard is damaged or cut off")

// readMDS reads a shard: the number of samples, where each begins and the last one ends, the columns, and the samples.
func readMDS(data []byte, how *pb.Format) (*recordFile, error) {
	if len(how.GetColumns()) > 0 {
		return nil, errors.New("a shard says its columns itself")
	}
	le := binary.LittleEndian
	if len(data) < 8 {
		return nil, errShard
	}
	n := int(le.Uint32(data))
	table := 4 * (n + 2)
	begin := le.Uint32(data[4:])
	if table >= len(data) || int(begin) > len(data) || int(begin) <= table {
		return nil, errShard
	}
	columns, err := mdsHeader(data[table:begin])
	if err != nil {
		return nil, err
	}
	f := &recordFile{}
	for i := range n {
		from, to := le.Uint32(data[4+4*i:]), le.Uint32(data[8+4*i:])
		if from > to || int(to) > len(data) {
			return nil, errShard
		}
		s, err := parseSample(data[from:to], columns)
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", i, err)
		}
		f.records = append(f.records, s)
	}
	if end := le.Uint32(data[4+4*n:]); int(end) != len(data) {
		return nil, errShard
	}
	for _, c := range columns {
		f.columns = append(f.columns, c.column(f.records))
	}
	for _, c := range columns {
		for _, field := range c.fields(f.records) {
			if !slices.ContainsFunc(f.columns, func(c column) bool { return c.name == field.name }) {
				f.columns = append(f.columns, field)
			}
		}
	}
	return f, nil
}

// fields are the columns of the fields of JSON.
func (m mdsColumn) fields(records []record) []column {
	if m.encoding != "json" || len(records) == 0 {
		return nil
	}
	seen := &shape{}
	for _, r := range records {
		if v, err := parseJSON(r.(mdsSample)[m.name].data); err == nil {
			seen.see(v)
		}
	}
	return seen.below(m.name)
}

func mdsHeader(text []byte) (columns []mdsColumn, err error) {
	var h struct {
		Version   int      `json:"version"`
		Format    string   `json:"format"`
		Names     []string `json:"column_names"`
		Encodings []string `json:"column_encodings"`
		Sizes     []*int   `json:"column_sizes"`
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, err
	}
	if h.Format != "mds" || h.Version != 2 || len(h.Names) != len(h.Encodings) || len(h.Names) != len(h.Sizes) {
		return nil, errShard
	}
	for i, name := range h.Names {
		c := mdsColumn{name: name, encoding: h.Encodings[i]}
		if h.Sizes[i] != nil {
			c.size = *h.Sizes[i]
		}
		columns = append(columns, c)
	}
	return columns, nil
}

// parseSample takes a sample apart: the sizes of what has no fixed one, and then all values.
func parseSample(data []byte, columns []mdsColumn) (mdsSample, error) {
	s, at := mdsSample{}, 0
	sizes := make([]int, len(columns))
	for i, c := range columns {
		if sizes[i] = c.size; c.size > 0 {
			continue
		}
		if at+4 > len(data) {
			return nil, errShard
		}
		sizes[i] = int(binary.LittleEndian.Uint32(data[at:]))
		at += 4
	}
	for i, c := range columns {
		if at+sizes[i] > len(data) {
			return nil, errShard
		}
		s[c.name] = mdsValue{c.encoding, data[at : at+sizes[i]]}
		at += sizes[i]
	}
	if at != len(data) {
		return nil, errShard
	}
	return s, nil
}

// mdsNumber is the kind of numbers of a name; uint64 are the bits of INT64.
func mdsNumber(name string) (k pb.Kind, unsigned bool) {
	return map[string]pb.Kind{
		"int": pb.Kind_INT64, "int8": pb.Kind_INT8, "int16": pb.Kind_INT16, "int32": pb.Kind_INT32,
		"int64": pb.Kind_INT64, "uint8": pb.Kind_UINT8, "uint16": pb.Kind_UINT16, "uint32": pb.Kind_UINT32,
		"uint64": pb.Kind_INT64, "float16": pb.Kind_FLOAT16, "float32": pb.Kind_FLOAT32, "float64": pb.Kind_FLOAT64,
	}[name], name == "uint64"
}

// column is the type of an encoding. Arrays that say their own are those of the first sample.
func (m mdsColumn) column(records []record) column {
	c := column{name: m.name, path: []string{m.name}}
	name, _, _ := strings.Cut(m.encoding, ":")
	switch kind, unsigned := mdsNumber(name); {
	case kind != pb.Kind_KIND_UNSPECIFIED:
		c.typ.Kind, c.unsigned = kind, unsigned
	case name == "str_int":
		c.typ.Kind = pb.Kind_INT64
	case name == "str_float":
		c.typ.Kind = pb.Kind_FLOAT64
	case name == "str" || name == "json" || name == "str_decimal":
		c.typ.Kind, c.text = pb.Kind_BINARY, true
	case name == "bytes" || name == "jpeg" || name == "png" || name == "pkl":
		c.typ.Kind = pb.Kind_BINARY
	case name == "list[jpeg]" || name == "list[png]" || name == "jpeg_array":
		c.typ = spec.Type{Kind: pb.Kind_BINARY, List: true}
	case name == "ndarray":
		first := make([]byte, m.size) // of an array whose encoding says all
		if len(records) > 0 {
			first = records[0].(mdsSample)[m.name].data
		}
		a, fixed, err := mdsArray(m.encoding, first)
		if c.untyped = err != nil; err == nil {
			c.typ = spec.Type{Kind: a.kind, List: true, Nested: uint32(len(a.shape)) - 1}
			c.unsigned = a.unsigned
			if fixed {
				c.shape = a.shape
			}
		}
	}
	return c.small()
}

// mdsArray reads an array, of which the encoding may say the kind and the shape: "ndarray:int32:2,3".
func mdsArray(encoding string, data []byte) (a npy, fixed bool, err error) {
	parts := append(strings.Split(encoding, ":"), "", "")
	take := func(n int) []byte {
		if n > len(data) {
			err, n = errShard, len(data)
		}
		out := data[:n]
		data = data[n:]
		return out
	}
	name := parts[1]
	if code := byte(0); name == "" {
		if b := take(1); len(b) == 1 {
			code = b[0]
		}
		name = map[byte]string{
			8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
			64: "uint64", 65: "int64", 66: "float64",
		}[code]
	}
	a.kind, a.unsigned = mdsNumber(name)
	if a.kind == pb.Kind_KIND_UNSPECIFIED {
		return a, false, errShard
	}
	if fixed = parts[2] != ""; fixed {
		for dim := range strings.SplitSeq(parts[2], ",") {
			n, err := strconv.ParseInt(dim, 10, 31)
			if err != nil {
				return a, true, err
			}
			a.shape = append(a.shape, int32(n))
		}
	} else if head := take(1); len(head) == 1 {
		for range head[0] >> 2 { // dimensions, each of so many bytes
			n := int32(0)
			for i, b := range take(1 << (head[0] & 3)) {
				n |= int32(b) << (8 * i)
			}
			a.shape = append(a.shape, n)
		}
	}
	if err == nil && (len(a.shape) == 0 || size(a.shape)*spec.Width(a.kind) != len(data)) {
		err = errShard
	}
	a.data = data
	return a, fixed, err
}

func (s mdsSample) value(c column) (any, bool, error) {
	v, ok := s[c.name]
	if !ok {
		return s.field(c)
	}
	name, _, _ := strings.Cut(v.encoding, ":")
	if kind, _ := mdsNumber(name); kind != pb.Kind_KIND_UNSPECIFIED {
		one, err := numbersOf(v.data, kind)
		if err != nil || len(one) != 1 {
			return nil, false, errShard
		}
		return one[0], true, nil
	}
	switch name {
	case "str_int", "str_float":
		return numeral(v.data), true, nil
	case "list[jpeg]", "list[png]":
		if len(v.data) < 4 {
			return nil, false, errShard
		}
		many, err := manyOf(v.data[4:])
		return many, true, err
	case "jpeg_array":
		many, err := manyOf(v.data)
		return many, true, err
	case "ndarray":
		a, _, err := mdsArray(v.encoding, v.data)
		if err != nil {
			return nil, false, err
		}
		own := c.own
		if own == pb.Kind_KIND_UNSPECIFIED {
			own = c.typ.Kind
		}
		widened := a.kind == pb.Kind_INT32 || a.kind == pb.Kind_FLOAT32
		if len(a.shape) != int(c.typ.Nested)+1 || a.kind != own && !widened {
			return nil, false, errors.New("its array is of another type than the first one")
		}
		values, err := numbersOf(a.data, a.kind)
		return folded(values, a.shape), true, err
	}
	if c.text && !utf8.Valid(v.data) {
		return nil, false, errors.New("it is no UTF-8")
	}
	return textual(v.data), true, nil
}

// folded are values as lists within lists.
func folded(values []any, shape []int32) any {
	if len(shape) == 1 {
		return values
	}
	out := []any{}
	step := size(shape[1:])
	for i := range int(shape[0]) {
		out = append(out, folded(values[i*step:(i+1)*step], shape[1:]))
	}
	return out
}

// manyOf are byte strings: their number, their sizes, and they.
func manyOf(data []byte) ([]any, error) {
	le := binary.LittleEndian
	if len(data) < 4 || uint64(len(data)-4) < 4*uint64(le.Uint32(data)) {
		return nil, errShard
	}
	n := int(le.Uint32(data))
	sizes, data := data[4:4+4*n], data[4+4*n:]
	out := []any{}
	for i := range n {
		size := int(le.Uint32(sizes[4*i:]))
		if size > len(data) {
			return nil, errShard
		}
		out, data = append(out, textual(data[:size])), data[size:]
	}
	if len(data) > 0 {
		return nil, errShard
	}
	return out, nil
}

// field is what a column of JSON has at a path: of those whose names fit, the one of the longest name.
func (s mdsSample) field(c column) (any, bool, error) {
	for at := len(c.name) - 1; at > 0; at-- {
		if document, ok := s[c.name[:at]]; ok && c.name[at] == '.' && document.encoding == "json" {
			v, err := parseJSON(document.data)
			if err != nil {
				return nil, false, err
			}
			return lookup(v, strings.Split(c.name[at+1:], "."), false)
		}
	}
	return nil, false, nil
}
