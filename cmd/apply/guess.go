package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/spec"
)

// bytesKey marks an object that is bytes: {"base64": "AAE="}.
const bytesKey = "base64"

// guess is what values of JSON have in common.
type guess struct {
	of     string            // "": only nulls were seen
	elem   *guess            // of lists
	fields map[string]*guess // of objects
	names  []string          // of these, in order
	wrong  error             // why they have nothing in common
	depth  int               // of lists and objects around them
}

// maxDepth bounds how deep values lie in lists and objects: no feature is made of what lies deeper.
const maxDepth = 2 * spec.MaxNested

// The words for what JSON has.
const (
	isBool, isInt, isFloat, isText, isBytes = "true or false", "an integer", "a number", "text", "bytes"
	isList, isObject                        = "a list", "an object"
)

// see takes another value into account.
func (g *guess) see(v any) error {
	if v == nil {
		return nil
	}
	is := whatIs(v)
	switch {
	case g.depth > maxDepth:
		return fmt.Errorf("found lists and objects in each other, %d deep; want at most %d", g.depth, maxDepth)
	case g.of == "", g.of == isInt && is == isFloat:
		g.of = is
	case g.of != is && (g.of != isFloat || is != isInt):
		return fmt.Errorf("found %s, and %s in rows before; give the columns' types, by --schema", is, g.of)
	}
	switch v := v.(type) {
	case []any:
		if g.elem == nil {
			g.elem = &guess{depth: g.depth + 1}
		}
		for _, x := range v {
			if err := g.elem.see(x); err != nil {
				return err
			}
		}
	case map[string]any:
		if is == isObject {
			return g.seeFields(v)
		}
	}
	return nil
}

func (g *guess) seeFields(v map[string]any) error {
	if g.fields == nil {
		g.fields = map[string]*guess{}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if g.fields[name] == nil {
			g.fields[name] = &guess{depth: g.depth + 1}
			g.names = append(g.names, name)
		}
		if err := g.fields[name].see(v[name]); err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
	}
	return nil
}

// whatIs says in words what a value is.
func whatIs(v any) string {
	switch v := v.(type) {
	case bool:
		return isBool
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return isFloat
		}
		return isInt
	case string:
		return isText
	case []any:
		return isList
	case map[string]any:
		if _, ok := v[bytesKey].(string); ok && len(v) == 1 {
			return isBytes
		}
		return isObject
	}
	return "null"
}

// kind is the type that all values have.
func (g *guess) kind() arrow.DataType {
	switch g.of {
	case isBool:
		return arrow.FixedWidthTypes.Boolean
	case isInt:
		return arrow.PrimitiveTypes.Int64
	case isFloat:
		return arrow.PrimitiveTypes.Float64
	case isText:
		return arrow.BinaryTypes.String
	case isBytes:
		return arrow.BinaryTypes.Binary
	case isList:
		return arrow.ListOf(g.elem.kind())
	case isObject:
		fields := make([]arrow.Field, len(g.names))
		for i, name := range g.names {
			fields[i] = arrow.Field{Name: name, Type: g.fields[name].kind(), Nullable: true}
		}
		return arrow.StructOf(fields...)
	}
	return arrow.Null
}
