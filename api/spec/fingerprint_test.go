package spec

import (
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestFingerprintsNameThePartsThatDiffer(t *testing.T) {
	a := mustParse(t, "{dataset: {uri: a}, features: [{dense: x}], batch_size: 8, seed: 1}")
	b := mustParse(t, "{dataset: {uri: a}, features: [{dense: y}], batch_size: 9, seed: 2, order: fast, epochs: 3}")
	if got, want := Differing(Fingerprint(a), Fingerprint(b)), []string{"features", "seed"}; !slices.Equal(got, want) {
		t.Errorf("they differ in %v, want %v", got, want)
	}
	if got := Differing(Fingerprint(a), nil); got != nil {
		t.Errorf("one without a fingerprint differs in %v", got)
	}
	for _, name := range parts() {
		if (&pb.Spec{}).ProtoReflect().Descriptor().Fields().ByName(name) == nil {
			t.Errorf("a spec has no part %q", name)
		}
	}
}
