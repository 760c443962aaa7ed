package tar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// document looks at a part that is JSON. What is damaged shows nothing: reading it tells.
func (s *seen) document(name string, data []byte) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return
	}
	s.value(name, v)
	if _, text := v.(string); text {
		s.byName[name] = &spec.Column{Unsupported: "JSON that is one text: declare it as string in " +
			"dataset.format.columns to have it as it stands"}
	}
}

// value looks at a value, whose fields are columns if it is an object.
func (s *seen) value(name string, v any) {
	fields, ok := v.(map[string]any)
	if !ok {
		s.field(name, typeOf(v))
		return
	}
	for key, v := range fields {
		if key == "" || strings.ContainsAny(key, ".*") {
			s.field(name+"."+key, spec.Column{Unsupported: "of a name of JSON that is empty, or has a dot or a star"})
			continue
		}
		s.value(name+"."+key, v)
	}
}

func (s *seen) field(name string, c spec.Column) {
	if s.isDeclared(name) {
		return
	}
	if before, ok := s.byName[name]; ok {
		c = united(*before, c)
	}
	s.byName[name] = &c
}

// typeOf is the column that a value shows.
func typeOf(v any) spec.Column {
	switch v := v.(type) {
	case bool:
		return spec.Column{Type: spec.Type{Kind: pb.Kind_BOOL}}
	case string:
		return spec.Column{Type: spec.Type{Kind: pb.Kind_BINARY}, Text: true}
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return spec.Column{Type: spec.Type{Kind: pb.Kind_FLOAT64}}
		}
		if _, err := strconv.ParseInt(v.String(), 10, 64); err != nil {
			return spec.Column{Unsupported: "a whole number beyond int64: declare it as float64 in " +
				"dataset.format.columns"}
		}
		return spec.Column{Type: spec.Type{Kind: pb.Kind_INT64}}
	case map[string]any:
		return spec.Column{Unsupported: "a list of objects"}
	case []any:
		return listOf(v)
	}
	return spec.Column{Untyped: true}
}

func listOf(values []any) spec.Column {
	c := spec.Column{Untyped: true}
	for _, v := range values {
		c = united(c, typeOf(v))
	}
	if c.Type.List {
		c.Type.Nested++
	}
	c.Type.List = true
	if c.Type.Nested > spec.MaxNested && c.Unsupported == "" {
		return spec.Column{Unsupported: fmt.Sprintf("lists within lists of more than %d levels", spec.MaxNested+1)}
	}
	return c
}

// united is the column of the values of both.
func united(a, b spec.Column) spec.Column {
	sameLists := a.Type.List == b.Type.List && a.Type.Nested == b.Type.Nested
	switch {
	case a.Unsupported != "":
		return a
	case b.Unsupported != "" || a.Untyped && (!b.Untyped || b.Type.List):
		return b
	case b.Untyped, a.Type == b.Type:
		return a
	case sameLists && isNumber(a.Type.Kind) && isNumber(b.Type.Kind):
		a.Type.Kind = pb.Kind_FLOAT64
		return a
	}
	return spec.Column{Unsupported: fmt.Sprintf("%s in one sample, and %s in another: declare it in "+
		"dataset.format.columns", a.Type, b.Type)}
}
