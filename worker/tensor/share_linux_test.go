package tensor

import (
	"math"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// A builder's batches lie in memory that a session's trainers can map, and the next ones in the same, unless a trainer
// kept it. Nobody else's do.
func TestShare(t *testing.T) {
	v := vec(pb.Kind_INT64, true, false)
	b, err := NewBuilder(program(tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0), []*vector.Vector{v}), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &Window{Slots: []*vector.Vector{v}, Rows: 4}
	build := func() *Batch {
		t.Helper()
		batch, err := b.Take(t.Context())
		if err == nil {
			err = b.Build(batch, w, b.Cut(w, 0, 4, math.MaxInt64))
		}
		if err != nil {
			t.Fatal(err)
		}
		return batch
	}
	batch := build()
	if batch.Shared != nil {
		t.Error("it is shared with nobody")
	}
	want := string(batch.Buffers[3])
	batch.Release()
	b.Share("session", 0, func(int64) {})
	var number uint32
	for i := range 4 {
		batch = build()
		if batch.Shared == nil || &batch.Shared.Bytes[0] != &batch.Buffers[1][0] || string(batch.Buffers[3]) != want {
			t.Fatalf("batch %d does not lie in shared memory, or is another one", i)
		}
		if same := batch.Shared.Number == number; same != (i == 1 || i == 3) {
			t.Errorf("batch %d lies in memory %d, the one before in %d", i, batch.Shared.Number, number)
		}
		number = batch.Shared.Number
		if i == 1 {
			batch.Shared.Free() // a trainer has it
		}
		batch.Release()
	}
	for _, session := range []string{"another", "", "session"} {
		b.Share(session, 0, func(int64) {})
		empty, err := b.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b.Empty(empty); empty.Shared != nil {
			t.Errorf("an empty batch for session %q lends the memory of another", session)
		}
		empty.Release()
		batch = build()
		if session == "" && batch.Shared != nil || session != "" &&
			(batch.Shared == nil || batch.Shared.Number == number) {
			t.Errorf("session %q has the memory of another", session)
		}
		batch.Release()
	}
	batch = build()
	b.Close()
	memory := batch.Shared
	if memory.Bytes == nil {
		t.Error("the memory of a batch that is out is gone")
	}
	batch.Release()
	if memory.Bytes != nil {
		t.Error("the memory of a batch that came back is kept")
	}
}
