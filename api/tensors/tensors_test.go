package tensors

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestSchema has a column of each layout.
func TestSchema(t *testing.T) {
	of := func(name string, layout pb.Layout, kind pb.Kind) *pb.Output {
		return &pb.Output{Name: name, Layout: layout, Type: &pb.Type{Kind: kind}, Slots: []uint32{0}}
	}
	dense, scored, photo := of("x", pb.Layout_DENSE, pb.Kind_FLOAT32), of("s", pb.Layout_SPARSE, pb.Kind_INT64),
		of("p", pb.Layout_IMAGE, pb.Kind_BINARY)
	words := of("w", pb.Layout_BYTES, pb.Kind_BINARY)
	words.Type.List = true
	dense.Slots, dense.Columns = []uint32{0, 1}, []string{"a", "\"b"}
	scored.Weights = new(uint32)
	photo.Shape = []int32{2, 3, 1}
	matrix, flags, half := of("t", pb.Layout_TENSOR, pb.Kind_BFLOAT16), of("o", pb.Layout_TENSOR, pb.Kind_BOOL),
		of("h", pb.Layout_PADDED, pb.Kind_FLOAT16)
	matrix.Shape = []int32{2, 3}
	half.Shape, half.Left, half.Fill = []int32{4}, true, &pb.Value{Kind: &pb.Value_Float{Float: -0.5}}
	makes := &pb.Function{Kind: pb.FunctionKind_FLAT_MAP}
	s, err := Schema(&pb.Program{Provenance: true, Steps: []*pb.Step{{Python: makes}}, Outputs: []*pb.Output{
		dense, of("f", pb.Layout_SPARSE, pb.Kind_FLOAT32), scored, of("l", pb.Layout_LABEL, pb.Kind_BOOL),
		of("b", pb.Layout_BYTES, pb.Kind_BINARY), words, photo, matrix, flags, half,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range s.Fields() {
		got = append(got, f.Name+" "+f.Type.String()+" "+f.Metadata.String())
	}
	want := strings.Join([]string{
		`x fixed_size_list<item: float32>[2] ["penstock.layout": "dense", "penstock.names": "[\"a\",\"\\\"b\"]"]`,
		`f list<item: float32> ["penstock.layout": "sparse"]`,
		`s list<item: struct<value: int64, weight: float32>> ["penstock.layout": "sparse"]`,
		`l bool ["penstock.layout": "label"]`,
		`b binary ["penstock.layout": "bytes"]`,
		`w list<item: binary> ["penstock.layout": "bytes"]`,
		`p fixed_size_list<item: uint8>[6] ["penstock.layout": "image", "penstock.shape": "2,3,1"]`,
		`t fixed_size_list<item: uint16>[6] ["penstock.layout": "tensor", "penstock.shape": "2,3", ` +
			`"penstock.dtype": "bfloat16"]`,
		`o uint8 ["penstock.layout": "tensor", "penstock.shape": "", "penstock.dtype": "bool"]`,
		`h struct<values: fixed_size_list<item: float16>[4], length: int32> ["penstock.layout": "padded", ` +
			`"penstock.shape": "4", "penstock.dtype": "float16", "penstock.value": "-0.5", "penstock.side": "left"]`,
		`_file int32 ["penstock.layout": "provenance"]`,
		`_row int64 ["penstock.layout": "provenance"]`,
		`_part int32 ["penstock.layout": "provenance"]`,
	}, "\n")
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Programs come from a master that may be newer, or hostile.
func TestProgramsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		output *pb.Output
		says   string
	}{
		{&pb.Output{Layout: pb.Layout_DENSE}, "0 columns"},
		{&pb.Output{Layout: 99}, "older than the master"},
		{&pb.Output{Layout: pb.Layout_SPARSE, Type: &pb.Type{Kind: pb.Kind_BINARY}}, "jagged values of kind BINARY"},
		{&pb.Output{Layout: pb.Layout_LABEL, Type: &pb.Type{Kind: pb.Kind_BINARY}}, "label of kind BINARY"},
		{&pb.Output{Layout: pb.Layout_IMAGE, Shape: []int32{1 << 30, 1 << 30, 1 << 30}}, "shape"},
		{&pb.Output{Layout: pb.Layout_IMAGE, Shape: []int32{2, -1, 3}}, "shape"},
		{&pb.Output{Layout: pb.Layout_IMAGE, Shape: []int32{2, 1}}, "want [H, W, C]"},
		{&pb.Output{Layout: pb.Layout_TENSOR, Type: &pb.Type{Kind: pb.Kind_BINARY}}, "tensor of kind BINARY"},
		{&pb.Output{
			Layout: pb.Layout_TENSOR, Type: &pb.Type{Kind: pb.Kind_INT64}, Shape: []int32{1 << 30, 1 << 30, 1 << 30},
		}, "shape"},
		{&pb.Output{Layout: pb.Layout_PADDED, Type: &pb.Type{Kind: pb.Kind_INT8}, Shape: []int32{2, 2}}, "want [length]"},
		{&pb.Output{Layout: pb.Layout_PADDED, Type: &pb.Type{Kind: pb.Kind_INT8}, Shape: []int32{0}}, "shape"},
	} {
		c.output.Name = "x"
		if _, err := Schema(&pb.Program{Outputs: []*pb.Output{c.output}}); err == nil ||
			!strings.HasPrefix(err.Error(), "tensor x: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: got %v, want %q", c.output, err, c.says)
		}
	}
	if _, err := Schema(&pb.Program{}); err == nil {
		t.Error("a program without outputs has a schema")
	}
}
