package reference

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
)

// TestEveryOpHasAnOracle: an op of the catalogue without one here would be compared with nothing. Ops of pictures have
// another, Pillow, in worker/images.
func TestEveryOpHasAnOracle(t *testing.T) {
	ours := ops()
	ours[spec.LookupOp] = opMaker{} // which has a file of its own, since it needs a table
	for _, op := range transform.Builtin().Ops() {
		own, ok := ours[op.Name]
		delete(ours, op.Name)
		switch pictures := strings.HasPrefix(op.Output, "pictures"); {
		case ok && own.maps != op.Maps:
			t.Errorf("%s: the interpreter maps: %v; the catalogue: %v", op.Name, own.maps, op.Maps)
		case ok == pictures:
			t.Errorf("%s: the interpreter has it: %v; it makes pictures: %v", op.Name, ok, pictures)
		}
	}
	if len(ours) > 0 {
		t.Errorf("the catalogue lacks %v", slices.Sorted(maps.Keys(ours)))
	}
}
