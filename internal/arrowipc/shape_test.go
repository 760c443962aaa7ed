package arrowipc

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
)

// inStream puts a schema's message behind its length, as it is in streams.
func inStream(header []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{0xff, 0xff, 0xff, 0xff}, uint32(len(header))), header...)
}

// fixed is a type of lists of lists of so many elements.
func fixed(of arrow.DataType, sizes ...int32) arrow.DataType {
	for _, n := range slices.Backward(sizes) {
		of = arrow.FixedSizeListOf(n, of)
	}
	return of
}

// tensorOf says that a list is a tensor.
func tensorOf(description string) arrow.Metadata {
	return arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"},
		[]string{"arrow.fixed_shape_tensor", description})
}

func shapedSchema() *arrow.Schema {
	f32 := arrow.PrimitiveTypes.Float32
	tensor := func(name, description string) arrow.Field {
		return arrow.Field{Name: name, Type: fixed(f32, 6), Metadata: tensorOf(description)}
	}
	many := arrow.NewMetadata(slices.Repeat([]string{"k"}, maxPairs), make([]string, maxPairs))
	folded := tensorOf(`{"shape":[3,2]}`)
	return arrow.NewSchema([]arrow.Field{
		{Name: "scalar", Type: f32},
		{Name: "list", Type: fixed(f32, 3)},
		{Name: "lists", Type: fixed(f32, 2, 3)},
		{Name: "deep", Type: fixed(f32, 1, 2, 1, 1, 1, 1, 1, 3)},
		{Name: "too deep", Type: fixed(f32, 1, 2, 1, 1, 1, 1, 1, 3, 1)},
		{Name: "of any", Type: fixed(arrow.ListOf(f32), 3)},
		{Name: "in any", Type: arrow.ListOf(fixed(f32, 3))},
		{Name: "of maps", Type: fixed(arrow.MapOf(f32, f32), 3)},
		tensor("tensor", `{"shape":[2,3]}`),
		tensor("in order", `{"shape":[1,2,3],"permutation":[0,1,2]}`),
		tensor("turned", `{"shape":[2,3],"permutation":[1,0]}`),
		tensor("of others", `{"shape":[2,2]}`),
		tensor("below zero", `{"shape":[-2,-3]}`),
		tensor("no shape", `{`),
		tensor("long", `{"shape":[2,3]}`+strings.Repeat(" ", maxTensor)),
		{Name: "nested tensor", Type: fixed(f32, 2, 3), Metadata: folded},
		{
			Name: "late", Type: fixed(f32, 6),
			Metadata: arrow.NewMetadata(append(many.Keys(), folded.Keys()...), append(many.Values(), folded.Values()...)),
		},
		{Name: "a", Type: arrow.StructOf(arrow.Field{Name: "b", Type: arrow.StructOf(
			arrow.Field{Name: "x", Type: fixed(f32, 4)}, arrow.Field{Name: "y", Type: fixed(f32, 5)},
		)}, arrow.Field{Name: "c", Type: fixed(f32, 1)})},
		{Name: "boxes", Type: fixed(arrow.StructOf(
			arrow.Field{Name: "x", Type: f32}, arrow.Field{Name: "y", Type: f32},
		), 2)},
	}, nil)
}

func TestShapes(t *testing.T) {
	var got []string
	EachShape(inStream(schemaBytes(t, shapedSchema())), func(path []string, shape []int32) {
		got = append(got, fmt.Sprint(strings.Join(path, "."), " ", shape))
	})
	want := []string{
		"list [3]", "lists [2 3]", "deep [1 2 1 1 1 1 1 3]", "tensor [2 3]", "in order [1 2 3]", "turned [6]",
		"of others [6]", "below zero [6]", "no shape [6]", "long [6]", "nested tensor [2 3]", "late [6]", "a.b.x [4]",
		"a.b.y [5]", "a.c [1]", "boxes.x [2]", "boxes.y [2]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// TestHostileShapes: many fields that are one and the same cost no more than the message's length, four times.
func TestHostileShapes(t *testing.T) {
	f32 := arrow.PrimitiveTypes.Float32
	many := make([]arrow.Field, 3000)
	for i := range many {
		many[i] = arrow.Field{Name: "x", Type: f32}
	}
	text := strings.Repeat("x", maxTensor-20)
	described := arrow.Field{Name: "x", Type: fixed(f32, 6), Metadata: tensorOf(`{"shape":[2,3],"x":"` + text[20:] + `"}`)}
	pairs := arrow.Field{Name: "x", Type: fixed(f32, 6), Metadata: arrow.NewMetadata(
		slices.Repeat([]string{"k"}, maxPairs), make([]string, maxPairs))}
	for name, c := range map[string]struct {
		of     arrow.Field
		around string
		cost   int // of each
	}{
		"a description": {of: described, cost: len(text)},
		"pairs":         {of: pairs, cost: costEntry * maxPairs},
		"lists":         {of: arrow.Field{Name: "x", Type: fixed(f32, 1, 1, 1, 1, 1, 1, 1, 1)}, cost: maxDims * costList},
		"no lists":      {of: arrow.Field{Name: "x", Type: fixed(f32, 1, 1, 1, 1, 1, 1, 1, 1, 1)}, cost: maxDims * costList},
		"a name around": {of: arrow.Field{Name: "x", Type: fixed(f32, 6)}, around: text, cost: len(text)},
	} {
		fields := slices.Clone(many)
		fields[len(fields)-1] = c.of
		if c.around != "" {
			fields = []arrow.Field{{Name: c.around, Type: arrow.StructOf(fields...)}}
		}
		b := schemaBytes(t, arrow.NewSchema(fields, nil))
		schema, _ := Header(b, SchemaHeader)
		of, i := schema, 1
		if c.around != "" {
			children, _ := schema.Tables(1)
			of, i = children[0], 5
		}
		tables, _ := of.Tables(i)
		_, first, _ := of.vector(i, 4)
		shaped := tables[len(tables)-1].at
		for k := range tables {
			at := int(first) + 4*k
			binary.LittleEndian.PutUint32(b[at:], uint32(shaped-at))
		}
		calls := 0
		w := shapeWalk{left: 4 * len(b), each: func([]string, []int32) { calls++ }}
		w.fields(schema, 1, nil, nil)
		if calls*c.cost > 4*len(b) || w.left >= 0 {
			t.Errorf("%s: %d fields of %d were looked at, %d left of %d bytes", name, calls, len(many), w.left, 4*len(b))
		}
	}
}

func FuzzEachShape(f *testing.F) {
	f.Add(inStream(schemaBytes(f, shapedSchema())))
	f.Add(inStream(schemaBytes(f, richSchema()))[4:])
	f.Fuzz(func(t *testing.T, message []byte) {
		calls := 0
		EachShape(message, func(path []string, shape []int32) {
			calls++
			if len(path) == 0 || len(path) > maxDepth || len(shape) == 0 || len(shape) > maxDims || slices.Min(shape) < 1 {
				t.Errorf("%q has shape %v", path, shape)
			}
		})
		if calls > len(message)/2 {
			t.Errorf("%d shapes in %d bytes", calls, len(message))
		}
	})
}
