package transform

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// The op that fits read lists of texts by packs what is no null, of whatever bytes, and is no op of specs.
func TestPackTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := list(pb.Kind_BINARY)
		chain := chainOf(t, packTexts(), nil, typ)
		for range 2 {
			rows := drawRows(t, typ, "in")
			want := make([]any, len(rows))
			for i, row := range rows {
				packed := []byte{}
				texts, _ := row.([]any)
				for _, text := range texts {
					if text != nil {
						packed = spec.PackText(packed, text.([]byte))
					}
				}
				want[i] = packed
			}
			if got := rowsOf(run(t, chain, vectorOf(typ, rows))); !same(got, want) {
				t.Fatalf("packed %v\ngot  %v\nwant %v", rows, got, want)
			}
		}
	})
	if _, err := Builtin().Check(spec.PackOp, nil, []spec.Type{scalar(pb.Kind_BINARY)}); err == nil {
		t.Error("a text is packed")
	}
	if slices.Contains(Builtin().Names(), spec.PackOp) {
		t.Error("the catalogue has it")
	}
}
