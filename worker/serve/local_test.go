package serve

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// trainer is one in the worker's process, with a goroutine that reads batches after they were handed over.
type trainer struct {
	schema *arrow.Schema
	kept   chan *wire.Batch
	got    delivered
	batch  func(context.Context) error // what else it does with each batch
}

// newTrainer returns a trainer, and what waits until it has read all.
func newTrainer() (r *trainer, wait func()) {
	r = &trainer{kept: make(chan *wire.Batch, wire.Kept)}
	var reading sync.WaitGroup
	reading.Go(func() {
		for b := range r.kept {
			r.look(b)
		}
	})
	return r, func() {
		close(r.kept)
		reading.Wait()
	}
}

func (r *trainer) Schema(_ context.Context, s *arrow.Schema) error {
	r.schema = s
	return nil
}

func (r *trainer) Batch(ctx context.Context, b *wire.Batch) error {
	select {
	case r.kept <- b:
	case <-ctx.Done():
		b.Release()
		return ctx.Err()
	}
	if r.batch != nil {
		return r.batch(ctx)
	}
	return nil
}

func (r *trainer) Return() error { return nil } // it has read all soon

func (r *trainer) look(b *wire.Batch) {
	var m pb.BatchMeta
	if err := proto.Unmarshal(b.Meta, &m); err != nil {
		panic(err)
	}
	r.got.rows = append(r.got.rows, arrow.Int64Traits.CastFromBytes(b.Buffers[len(b.Buffers)-1])...)
	r.got.at = pipeline.Cursor{Window: m.Window, K: m.K + uint64(m.Rows)}
	b.Release()
}

// TestLocal: a trainer of the same process gets the same rows, from any cursor, and the stream leaves its memory to the
// next one.
func TestLocal(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 5000, 700)
	read := func(at pipeline.Cursor) *trainer {
		t.Helper()
		to, wait := newTrainer()
		if err := r.server.Local(t.Context(), r.request(t, at), to); err != nil {
			t.Fatal(err)
		}
		wait()
		return to
	}
	whole := read(pipeline.Cursor{})
	whole.got.check(t, 5700)
	rest := read(pipeline.Cursor{Window: 2, K: 300})
	if len(rest.got.rows) != 3400 || rest.got.rows[0] != 2300 || rest.got.at != whole.got.at {
		t.Errorf("%d rows from %d on, up to %v", len(rest.got.rows), rest.got.rows[0], rest.got.at)
	}
	if rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{})); err != nil ||
		!rd.Schema().Equal(whole.schema) {
		t.Errorf("schema %v, or %v", whole.schema, err)
	} else {
		rd.Release()
	}
	if r.pipeline.MemoryInUse() != 0 && r.server.Streams() == 0 {
		t.Errorf("%d bytes are left", r.pipeline.MemoryInUse())
	}
}

// TestLocalWaits: a stream has ended once the trainer has released its batches; that one which keeps them gives its
// place to another is no error to it.
func TestLocalWaits(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 50)
	kept := &trainer{kept: make(chan *wire.Batch, wire.Kept)}
	ended := make(chan error)
	go func() { ended <- r.server.Local(t.Context(), r.request(t, pipeline.Cursor{}), kept) }()
	b := <-kept.kept
	select {
	case err := <-ended:
		t.Fatalf("it has ended with %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	to, wait := newTrainer()
	for { // the one that keeps is held back for a while
		err := r.server.Local(t.Context(), r.request(t, pipeline.Cursor{}), to)
		if err == nil {
			break
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	wait()
	to.got.check(t, 50)
	if err := <-ended; err != nil {
		t.Errorf("it has ended with %v", err)
	}
	if kept.look(b); len(kept.got.rows) != 50 {
		t.Errorf("the batch that was kept has %d rows", len(kept.got.rows))
	}
}

// TestLocalEnds: refusals have the statuses of DoGet, and the receiver's own error comes back.
func TestLocalEnds(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 5000)
	req := r.request(t, pipeline.Cursor{})
	enough := errors.New("enough")
	enoughFor, wait := newTrainer()
	defer wait()
	enoughFor.batch = func(context.Context) error { return enough }
	if err := r.server.Local(t.Context(), req, enoughFor); !errors.Is(err, enough) {
		t.Errorf("the receiver's error comes back as %v", err)
	}
	forged := proto.CloneOf(req)
	forged.Ticket.Signature[3] ^= 1
	if err := r.server.Local(t.Context(), forged, &trainer{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a forged ticket: %v", err)
	}
	waits := make(chan struct{})
	slow, read := newTrainer()
	defer read()
	slow.batch = func(ctx context.Context) error {
		close(waits)
		<-ctx.Done()
		return ctx.Err()
	}
	ended := make(chan error)
	go func() { ended <- r.server.Local(t.Context(), req, slow) }()
	<-waits
	r.server.Drain()
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("a drain ends it with %v", err)
	}
}
