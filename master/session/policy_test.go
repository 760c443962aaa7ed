package session

import (
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestEachEndingHasItsPolicy holds that no value of the enum is taken for another one.
func TestEachEndingHasItsPolicy(t *testing.T) {
	found := map[string]pb.LastBatch{}
	for n := range pb.LastBatch_name {
		of := pb.LastBatch(n)
		if of == pb.LastBatch_LAST_BATCH_UNSPECIFIED { // of sessions that an earlier release opened: uneven
			continue
		}
		id := testID
		id.LastBatch, id.FirstWorldSize, id.Epochs = of, 2, 1
		s, err := New(id)
		if err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprintf("%T", s.policy())
		if other, taken := found[kind]; taken {
			t.Errorf("%v and %v are both %s", of, other, kind)
		}
		found[kind] = of
	}
}
