package pipeline

import (
	"context"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// TestSendTellsOfMore: a batch says that there is another one only where that one waits already.
func TestSendTellsOfMore(t *testing.T) {
	ready := make(chan Batch, 2)
	batch := Batch{Batch: &tensor.Batch{}, Meta: &pb.BatchMeta{}}
	ready <- batch
	ready <- batch
	s := &sender{stats: &stats{}}
	var more []bool
	err := s.run(t.Context(), ready, func(_ context.Context, b Batch) error {
		more = append(more, b.More)
		if len(more) == 3 {
			close(ready)
		} else if len(ready) == 0 {
			ready <- batch // it comes while the one before is being sent
		}
		return nil
	})
	if err != nil || !slices.Equal(more, []bool{true, false, false}) {
		t.Errorf("batches tell of more: %v, error %v", more, err)
	}
}
