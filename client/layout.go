package client

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
)

// layout is how the columns of a session's record batches become tensors. All streams of a session have the same.
type layout struct {
	schema   *arrow.Schema
	columns  []column
	excludes bool // the dataset has rows that its table has deleted
}

type role uint8

const (
	roleDense role = iota
	roleSparse
	roleLabel
	roleBytes
	roleImage
	roleTensor
	rolePadded
	roleFile
	roleRow
	rolePart
)

type column struct {
	name     string
	role     role
	elem     arrow.Type // of values: FLOAT32, INT64, ...
	width    int        // values a row; 0 if jagged
	weighted bool
	lists    bool     // bytes: a row has a list of byte strings
	names    []string // dense: of its columns
	shape    []int    // image: H, W, C or C, H, W; tensor: of a row; padded: the length

	// Values of tensors and of padded rows are bytes here, so elem is UINT8, whatever they are; only int64 ones, which
	// may come narrow, are INT64.
	bytes int    // that a value has, if it is bytes; else 1
	dtype string // of the values
	value string // padded: what rows are filled with
	fill  []byte // and its bytes
	left  bool   // padded: it lies before the row's values
}

// layoutOf is the layout in which workers send a serialised program's tensors.
func layoutOf(program []byte) (*layout, error) {
	var p pb.Program
	if err := proto.Unmarshal(program, &p); err != nil {
		return nil, err
	}
	schema, err := tensors.Schema(&p)
	if err != nil {
		return nil, err
	}
	l, err := parseLayout(schema)
	if err == nil {
		l.excludes = p.GetExcludes()
	}
	return l, err
}

// parseLayout reads a stream's schema (docs: the wire tensor layout).
func parseLayout(schema *arrow.Schema) (*layout, error) {
	l := &layout{schema: schema}
	var dense string
	for _, f := range schema.Fields() {
		c, err := parseColumn(f)
		if err != nil {
			return nil, fmt.Errorf("schema: field %q: %w", f.Name, err)
		}
		if c.role == roleDense {
			if dense != "" {
				return nil, fmt.Errorf("schema: fields %q and %q are both dense; there may be one", dense, f.Name)
			}
			dense = f.Name
		}
		l.columns = append(l.columns, c)
	}
	return l, nil
}

func parseColumn(f arrow.Field) (column, error) {
	c := column{name: f.Name, width: 1, bytes: 1}
	tag, _ := f.Metadata.GetValue(tensors.Layout)
	switch {
	case tag == "dense":
		return parseDense(c, f)
	case tag == "sparse":
		return parseSparse(c, f.Type)
	case tag == "image":
		return parseImage(c, f)
	case tag == "tensor":
		return parseTensor(c, f, f.Type)
	case tag == "padded":
		return parsePadded(c, f)
	case tag == "bytes":
		return parseBytes(c, f.Type)
	case tag == "label":
		c.role, c.elem = roleLabel, f.Type.ID()
		switch c.elem {
		case arrow.BOOL, arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64:
			return c, nil
		}
		return c, want(false, f.Type, "bool, int32, int64, float32 or float64")
	case f.Name == tensors.FileColumn:
		c.role, c.elem = roleFile, f.Type.ID()
		return c, want(c.elem == arrow.INT32, f.Type, "int32")
	case f.Name == tensors.RowColumn:
		c.role, c.elem = roleRow, f.Type.ID()
		return c, want(c.elem == arrow.INT64, f.Type, "int64")
	case f.Name == tensors.PartColumn:
		c.role, c.elem = rolePart, f.Type.ID()
		return c, want(c.elem == arrow.INT32, f.Type, "int32")
	}
	return c, fmt.Errorf(
		"metadata penstock.layout is %q; expected dense, sparse, label, bytes, image, tensor or padded", tag)
}

func parseDense(c column, f arrow.Field) (column, error) {
	t, ok := f.Type.(*arrow.FixedSizeListType)
	if !ok || t.Elem().ID() != arrow.FLOAT32 {
		return c, want(false, f.Type, "fixed_size_list<float32>")
	}
	names, _ := f.Metadata.GetValue(tensors.Names)
	if err := json.Unmarshal([]byte(names), &c.names); err != nil {
		return c, fmt.Errorf("metadata penstock.names: %w", err)
	}
	c.role, c.elem, c.width = roleDense, arrow.FLOAT32, int(t.Len())
	if len(c.names) != c.width {
		return c, fmt.Errorf("metadata penstock.names has %d names for %d columns", len(c.names), c.width)
	}
	return c, nil
}

func parseSparse(c column, t arrow.DataType) (column, error) {
	const expected = "list<int64>, list<float32> or list<struct<value, weight: float32>>"
	list, ok := t.(*arrow.ListType)
	if !ok {
		return c, want(false, t, expected)
	}
	elem := list.Elem()
	if s, ok := elem.(*arrow.StructType); ok {
		if s.NumFields() != 2 || s.Field(1).Type.ID() != arrow.FLOAT32 {
			return c, want(false, t, expected)
		}
		c.weighted, elem = true, s.Field(0).Type
	}
	c.role, c.elem, c.width = roleSparse, elem.ID(), 0
	return c, want(c.elem == arrow.INT64 || c.elem == arrow.FLOAT32, t, expected)
}

func parseBytes(c column, t arrow.DataType) (column, error) {
	elem := t
	if list, ok := t.(*arrow.ListType); ok {
		c.lists, elem = true, list.Elem()
	}
	c.role, c.elem, c.width = roleBytes, elem.ID(), 0
	return c, want(c.elem == arrow.BINARY, t, "binary or list<binary>")
}

func parseImage(c column, f arrow.Field) (column, error) {
	t, ok := f.Type.(*arrow.FixedSizeListType)
	if !ok || t.Elem().ID() != arrow.UINT8 && t.Elem().ID() != arrow.FLOAT32 {
		return c, want(false, f.Type, "fixed_size_list<uint8> or fixed_size_list<float32>")
	}
	c.role, c.elem, c.width = roleImage, t.Elem().ID(), int(t.Len())
	shape, size, ok := parseShape(f, 1)
	if c.shape = shape; !ok || len(shape) != 3 {
		return c, wrongShape(f, "expected H,W,C or C,H,W")
	}
	if size != c.width {
		return c, wrongShape(f, fmt.Sprintf("but a row has %d values", c.width))
	}
	return c, nil
}

// parseShape reads a field's shape, and says how many values it has, of so many bytes each.
func parseShape(f arrow.Field, bytes int) (shape []int, size int, ok bool) {
	text, ok := f.Metadata.GetValue(tensors.Shape)
	if text == "" {
		return nil, 1, ok
	}
	var dims []int32
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			return nil, 0, false
		}
		dims, shape = append(dims, int32(n)), append(shape, int(n))
	}
	size = spec.Count(dims, bytes)
	return shape, size, size > 0
}

func wrongShape(f arrow.Field, why string) error {
	shape, _ := f.Metadata.GetValue(tensors.Shape)
	return fmt.Errorf("metadata penstock.shape is %q; %s", shape, why)
}

func want(ok bool, got arrow.DataType, expected string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("type is %v; expected %s", got, expected)
}

// same reports whether a stream's schema means the same tensors.
func (l *layout) same(schema *arrow.Schema) bool {
	other, err := parseLayout(schema)
	return err == nil && reflect.DeepEqual(l.columns, other.columns)
}
