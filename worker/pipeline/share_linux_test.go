package pipeline

import (
	"context"
	"testing"

	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// Batches lie in memory that trainers can map, until these have too much of it from streams that have ended.
func TestShareUntilTrainersHaveTooMuch(t *testing.T) {
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 300)), 300)
	p := newPipeline(&store, 1<<20)
	shared := func() (yes bool) {
		t.Helper()
		s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Share()
		if err := s.Run(t.Context(), func(_ context.Context, b Batch) error {
			yes = b.Shared != nil
			b.Release()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return yes
	}
	if !shared() {
		t.Error("batches are not shared")
	}
	much := p.MemoryLimit()/mostMapped + 1
	p.memory.addMapped(much)
	if shared() {
		t.Errorf("batches are shared while trainers have %d bytes mapped of %d", much, p.MemoryLimit())
	}
	p.memory.addMapped(-much)
	if !shared() {
		t.Error("batches are not shared any more")
	}
}
