package parquet

import (
	"bytes"
	"encoding/base64"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// TestShapesFitLevels: where Arrow's schema contradicts the levels of lists that a column has, it is not believed.
func TestShapesFitLevels(t *testing.T) {
	one := arrow.FixedSizeListOf(6, arrow.PrimitiveTypes.Int32)
	two := arrow.FixedSizeListOf(2, one)
	var fields []arrow.Field
	p := &parser{take: func(int64) error { return nil }}
	want := map[string][]int32{}
	for _, c := range []struct {
		name   string
		says   arrow.DataType
		nested uint32
		want   []int32
	}{
		{"one", one, 0, []int32{6}},
		{"two", two, 1, []int32{2, 6}},
		{"two of one", two, 0, []int32{2, 6}}, // as of tensors, whose values lie in one list
		{"one of two", one, 1, nil},
		{"two of three", two, 2, nil},
	} {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.says})
		p.columns = append(p.columns, spec.Column{
			Name: c.name, Path: []string{c.name},
			Type: spec.Type{Kind: pb.Kind_INT32, List: true, Nested: c.nested},
		})
		want[c.name] = c.want
	}
	var message bytes.Buffer
	if err := ipc.NewWriter(&message, ipc.WithSchema(arrow.NewSchema(fields, nil))).Close(); err != nil {
		t.Fatal(err)
	}
	p.arrow = []byte(base64.StdEncoding.EncodeToString(message.Bytes()))
	if err := p.markShapes(); err != nil {
		t.Fatal(err)
	}
	for _, c := range p.columns {
		if !slices.Equal(c.Shape, want[c.Name]) {
			t.Errorf("%s: %v, want %v", c.Name, c.Shape, want[c.Name])
		}
	}
}
