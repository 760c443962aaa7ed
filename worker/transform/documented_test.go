package transform_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
)

// resolve makes a program of a spec with these transforms, over the columns that the examples name.
func resolve(t *testing.T, transforms string) *pb.Program {
	t.Helper()
	features := "[{dense: int_*}, {sparse: cat_*}]"
	if strings.Contains(transforms, "photo") {
		features = "[{dense: int_*}, {sparse: cat_*}, {image: photo}]"
	}
	s, err := spec.Parse([]byte("dataset: {uri: 'file:///data/'}\nbatch_size: 1\nfeatures: " + features +
		"\ntransforms:\n" + transforms))
	if err != nil {
		t.Fatalf("%s\n%v", transforms, err)
	}
	var schema spec.Schema
	for name, typ := range map[string]spec.Type{
		"int_1": {Kind: pb.Kind_INT32}, "int_2": {Kind: pb.Kind_INT32},
		"cat_1": {Kind: pb.Kind_INT64, List: true}, "cat_2": {Kind: pb.Kind_INT64, List: true},
		"scores_1": {Kind: pb.Kind_FLOAT32, List: true}, "scores_2": {Kind: pb.Kind_FLOAT32, List: true},
		"photo": {Kind: pb.Kind_BINARY},
	} {
		schema.Columns = append(schema.Columns, spec.Column{Name: name, Path: []string{name}, Type: typ})
	}
	p, err := spec.Resolve(s, spec.Given{Schema: schema, Catalog: transform.Builtin()})
	if err != nil {
		t.Fatalf("%s\n%v", transforms, err)
	}
	return p
}

// around is what a spec needs before and after an image op.
func around(op string) (before, after string) {
	const decode, resize = "  - {op: decode_jpeg, in: photo}\n", "  - {op: resize, in: photo, size: [256, 256]}\n"
	switch op {
	case "decode_jpeg", "decode_png", "decode_image":
		return "", resize
	case "resize", "random_resized_crop":
		return decode, ""
	case "center_crop":
		return decode + resize, ""
	case "flip":
		return decode, resize
	}
	return "", ""
}

// TestExamplesAreValid resolves the example that the catalogue shows of each op, and compiles the program.
func TestExamplesAreValid(t *testing.T) {
	for _, op := range transform.Builtin().Ops() {
		before, after := around(op.Name)
		p := resolve(t, before+"  - "+op.Example+"\n"+after)
		if !slices.ContainsFunc(p.GetSteps(), func(s *pb.Step) bool {
			return s.GetOp() == op.Name &&
				s.GetVersion() == op.Version
		}) {
			t.Errorf("%s: the program of %s has no such step", op.Name, op.Example)
		}
		if _, err := transform.Compile(transform.Builtin(), p, nil); err != nil {
			t.Errorf("%s: %v", op.Name, err)
		}
	}
}

// TestReadme resolves the page's example and looks for each op in its table.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/ops.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, rest, found := strings.Cut(page, "    transforms:\n")
	example, _, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no example")
	}
	if p := resolve(t, example+"\n"); len(p.GetSteps()) < strings.Count(example, "op:") {
		t.Errorf("%d steps of\n%s", len(p.GetSteps()), example)
	}
	for _, op := range transform.Builtin().Ops() {
		row := "\n| `" + op.Name
		if !strings.Contains(page, row+"`") && !strings.Contains(page, row+"(") {
			t.Errorf("the table has no row of %s", op.Name)
		}
	}
}
