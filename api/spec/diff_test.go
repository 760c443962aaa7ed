package spec

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestDiff(t *testing.T) {
	a := mustParse(t, `
dataset: {uri: [a, b]}
features: [{dense: x}, {label: y, default: 1}]
transforms: [{op: clamp, in: x, min: 0, max: 1}]
batch_size: 1024
`)
	b := mustParse(t, `
dataset: {uri: a, storage: s}
features: [{sparse: x}, {label: y, default: 1.0}]
transforms: [{op: clamp, in: [x], min: 0.5, cut: [1, x]}, {op: log1p, in: x}]
batch_size: 4096
last_batch: drop
shuffle: true
epochs: 1
`)
	want := []string{
		`dataset.uri: ["a", "b"] and ["a"]`,
		`dataset.storage: "" and "s"`,
		`features[0].layout: dense and sparse`,
		`features[1].default: 1 and 1.0`,
		`transforms[0].cut: nothing and [1, x]`,
		`transforms[0].max: 1 and nothing`,
		`transforms[0].min: 0 and 0.5`,
		`transforms: 1 and 2 entries`,
		`batch_size: 1024 and 4096`,
		`last_batch: uneven and drop`,
		`shuffle: false and true`,
	}
	if got := Diff(a, b); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := Diff(&pb.Spec{Epochs: 1, LastBatch: pb.LastBatch_UNEVEN}, &pb.Spec{Dataset: &pb.Dataset{}}); got != nil {
		t.Errorf("defaults differ: %v", got)
	}
}

func TestDiffIsEmptyForEqualSpecsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySpec(t), anySpec(t)
		if got := Diff(a, proto.CloneOf(a)); len(got) != 0 {
			t.Fatalf("differs from itself: %v", got)
		}
		if got := Diff(a, b); (len(got) == 0) != equalSpecs(explicit(a), explicit(b)) {
			t.Fatalf("%v\n%v\ndiffer by %v", a, b, got)
		}
	})
}

func TestMarshalGivesEqualProgramsEqualBytes(t *testing.T) {
	text := "features: {sparse: cat_0}\ntransforms: {op: sigrid_hash, in: cat_0, max: 10, b: 1, c: 2, d: 3, e: 4}\n"
	first, err := Marshal(resolve(t, text))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := Marshal(resolve(t, text)); err != nil || !bytes.Equal(again, first) {
			t.Fatalf("got %x, then %x, %v", first, again, err)
		}
	}
	if other, err := Marshal(resolve(t, text+"seed: 1")); err != nil || bytes.Equal(other, first) {
		t.Errorf("another seed gives the same bytes: %v", err)
	}
	if _, err := Marshal(&pb.Program{Filter: "\xff"}); err == nil {
		t.Error("text that is not UTF-8 was serialised")
	}
}
