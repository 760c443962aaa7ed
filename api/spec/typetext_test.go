package spec

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestTypesInTextAreReadBack draws results as functions may make them.
func TestTypesInTextAreReadBack(t *testing.T) {
	var kinds []pb.Kind
	for _, name := range typeNames() {
		if k := KindNamed(name); k != pb.Kind_KIND_UNSPECIFIED {
			kinds = append(kinds, k)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := &pb.Result{Name: "r"}
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		typ := Type{Kind: kind, List: rapid.Bool().Draw(t, "list")}
		switch {
		case typ.List && Width(kind) > 0 && rapid.Bool().Draw(t, "tensor"):
			r.Shape = rapid.SliceOfN(rapid.Int32Range(1, 100), 1, 4).Draw(t, "shape")
		case typ.List:
			typ.Nested = rapid.Uint32Range(0, MaxNested).Draw(t, "nested")
		}
		r.Type = typ.Proto()
		r.Text = kind == pb.Kind_BINARY && rapid.Bool().Draw(t, "text")
		if mistake := resultMistake(r); mistake != "" {
			t.Fatalf("drew a result that none may make: %s", mistake)
		}
		text := resultText(r)
		got := parseResult(text)
		if got == nil {
			t.Fatalf("%v is written as %s, which is none", r, text)
		}
		if got.Name = "r"; !proto.Equal(got, r) {
			t.Fatalf("%v is written as %s, which is read as %v", r, text, got)
		}
	})
}

func TestTypesInText(t *testing.T) {
	for text, want := range map[string]*pb.Result{
		"int32":                     result("", pb.Kind_INT32),
		"string":                    {Type: &pb.Type{Kind: pb.Kind_BINARY}, Text: true},
		"list<list<string>>":        {Type: &pb.Type{Kind: pb.Kind_BINARY, List: true, Nested: 1}, Text: true},
		"tensor<3x224x224xfloat16>": result("", pb.Kind_FLOAT16, 3, 224, 224),
		"":                          nil, "int": nil, "list": nil, "list<int32": nil, "list<>": nil, "picture": nil, "bfloat16": nil,
		"tensor<float32>": nil, "tensor<0xfloat32>": nil, "tensor<3x4>": nil, "tensor<03xint8>": nil, "tensor<3xstring>": nil,
		"tensor<3, 4, float32>": nil, "list<tensor<3xint8>>": nil, "INT32": nil, "kind_unspecified": nil,
		"list<list<list<list<list<list<list<list<list<int32>>>>>>>>>": nil,
	} {
		if got := parseResult(text); !proto.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
