package parquet

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// The half of a map that can be read stays a column, whatever is wrong with the other one.
func TestHalfAMapIsBlocked(t *testing.T) {
	entries := []*node{
		{name: "key", physical: Int64, converted: noConverted},
		{name: "value", physical: Int64, converted: noConverted},
	}
	m := &node{name: "m", repetition: optional, physical: noPhysical, converted: convertedMap, children: []*node{
		{name: "key_value", repetition: repeated, physical: noPhysical, converted: noConverted, children: entries},
	}}
	for blocked, names := range [][2]string{{"m.key", "m.value"}, {"m.value", "m.key"}} {
		var b columnBuilder
		b.visit(m, place{})
		f := &Footer{}
		b.finish(f, map[int]string{blocked: "its key cannot be had"})
		for name, want := range map[string]string{
			"m": "its key cannot be had", names[0]: "its key cannot be had",
			names[1]: "",
		} {
			i, ok := f.Column(name)
			if !ok {
				t.Fatalf("there is no column %s", name)
			}
			if got := f.Schema.Columns[i].Unsupported; got != want {
				t.Errorf("with %s blocked, %s is %q, want %q", names[0], name, got, want)
			}
		}
		if there, gone := f.Leaves[1-blocked], f.Leaves[blocked]; there.Kind != pb.Kind_INT64 ||
			there.Logical.ListDef == 0 || gone.Kind != pb.Kind_KIND_UNSPECIFIED {
			t.Errorf("with %s blocked, the leaves are %+v and %+v", names[0], gone, there)
		}
	}
}

// TestVariants refuses them with the reason, and those in lists.
func TestVariants(t *testing.T) {
	variant := &node{
		name: "v", repetition: optional, physical: noPhysical, converted: noConverted, logical: logicalVariant,
		children: []*node{
			{name: "metadata", physical: ByteArray, converted: noConverted},
			{name: "value", physical: ByteArray, converted: noConverted},
		},
	}
	list := &node{name: "l", physical: noPhysical, converted: convertedList, children: []*node{
		{name: "list", repetition: repeated, physical: noPhysical, converted: noConverted, children: []*node{variant}},
	}}
	var b columnBuilder
	b.visit(variant, place{})
	b.visit(list, place{})
	f := &Footer{}
	b.finish(f, nil)
	for name, want := range map[string]string{
		"v": "a variant: its rows differ in type; write its fields as columns",
		"l": "a list of variants",
	} {
		if i, ok := f.Column(name); !ok || f.Schema.Columns[i].Unsupported != want || len(f.Leaves) != 4 {
			t.Errorf("%s: %+v", name, f.Schema.Columns)
		}
	}
}
