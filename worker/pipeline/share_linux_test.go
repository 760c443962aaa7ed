package pipeline

import (
	"context"
	"strings"
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
	much := p.MemoryLimit()/mappedShare + 1
	p.memory.AddMapped(much)
	if shared() {
		t.Errorf("batches are shared while trainers have %d bytes mapped of %d", much, p.MemoryLimit())
	}
	p.memory.AddMapped(-much)
	if !shared() {
		t.Error("batches are not shared any more")
	}
}

// What streams leave to the next ones does not grow where each second one's batches are shared, and pieces are of all
// lengths.
func TestKitsDoNotSwellByShares(t *testing.T) {
	var store pipelinetest.Store
	text := func(row int) string { return strings.Repeat("x", 10+row%7*row%300) }
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", pipelinetest.Texts(t, 1<<20, text, 700)), 300)
	ticket.ProgramDigest = []byte("digest")
	p := newPipeline(&store, 10_000)
	most := int64(0)
	for i := range 40 {
		s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			s.Share()
		}
		err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
			b.Release()
			return nil
		})
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, left := kept(p); i < 4 {
			most = max(most, left)
		} else if left == 0 || left > most {
			t.Fatalf("stream %d leaves %d bytes; of the first four, the most were %d", i, left, most)
		}
	}
}
