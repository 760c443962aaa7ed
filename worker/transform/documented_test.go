package transform_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/transform"
)

// resolve makes a program of a spec with these transforms, over the columns that the examples name.
func resolve(t *testing.T, transforms string) *pb.Program {
	t.Helper()
	features := "[{dense: int_*}, {sparse: cat_*}]"
	if strings.Contains(transforms, "photo") {
		features = "[{dense: int_*}, {sparse: cat_*}, {image: photo}]"
	}
	if strings.Contains(transforms, "lookup") {
		features = "[{dense: int_*}, {sparse: [cat_*, item_*]}]"
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
	p, err := spec.Resolve(s, spec.Given{Schema: schema, Catalog: transform.Builtin(), Tables: sideTables(s)})
	if err != nil {
		t.Fatalf("%s\n%v", transforms, err)
	}
	return p
}

// sideTables are what the examples look values up in.
func sideTables(s *pb.Spec) map[spec.TableName]*spec.SideTable {
	all := map[spec.TableName]*spec.SideTable{}
	for _, named := range spec.Tables(s) {
		t := &spec.SideTable{File: &pb.File{Uri: named.URI, Etag: "1"}, Rows: 1}
		for name, typ := range map[string]spec.Type{
			"item_id": {Kind: pb.Kind_INT64}, "price": {Kind: pb.Kind_FLOAT32}, "stock": {Kind: pb.Kind_INT32},
		} {
			t.Schema.Columns = append(t.Schema.Columns, spec.Column{Name: name, Path: []string{name}, Type: typ})
		}
		all[named.TableName] = t
	}
	return all
}

// emptyTables are those of a program, without rows.
func emptyTables(t *testing.T, p *pb.Program) []*lookup.Table {
	t.Helper()
	var all []*lookup.Table
	for _, about := range p.GetTables() {
		table, err := lookup.NewBuilder(about, func(int64) error { return nil }).Table()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, table)
	}
	return all
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
			return (s.GetOp() == op.Name || op.Name == spec.LookupOp && s.GetOp() == spec.LookupRowOp) &&
				s.GetVersion() == op.Version
		}) {
			t.Errorf("%s: the program of %s has no such step", op.Name, op.Example)
		}
		if _, err := transform.Compile(transform.Builtin(), p, nil, emptyTables(t, p)...); err != nil {
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
