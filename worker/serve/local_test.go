package serve

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// trainer is one in the worker's process. It keeps batches until it has many, as its budget allows, and then looks at all.
type trainer struct {
	schema *arrow.Schema
	kept   []*wire.Batch
	keeps  int
	got    delivered
	batch  func(context.Context) error // what else it does with each batch
}

func (r *trainer) Schema(_ context.Context, s *arrow.Schema) error {
	r.schema = s
	return nil
}

func (r *trainer) Batch(ctx context.Context, b *wire.Batch) error {
	if r.kept = append(r.kept, b); len(r.kept) > r.keeps {
		r.look()
	}
	if r.batch != nil {
		return r.batch(ctx)
	}
	return nil
}

func (r *trainer) look() {
	for _, b := range r.kept {
		var m pb.BatchMeta
		if err := proto.Unmarshal(b.Meta, &m); err != nil {
			panic(err)
		}
		r.got.rows = append(r.got.rows, arrow.Int64Traits.CastFromBytes(b.Buffers[len(b.Buffers)-1])...)
		r.got.at = pipeline.Cursor{Window: m.Window, K: m.K + uint64(m.Rows)}
		b.Release()
	}
	r.kept = nil
}

// TestLocal: a trainer of the same process gets the same rows, from any cursor, and may keep batches while others are made.
func TestLocal(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 5000, 700)
	whole := trainer{keeps: 25}
	if err := r.server.Local(t.Context(), r.request(t, pipeline.Cursor{}), &whole); err != nil {
		t.Fatal(err)
	}
	whole.look()
	whole.got.check(t, 5700)
	var rest trainer
	if err := r.server.Local(t.Context(), r.request(t, pipeline.Cursor{Window: 2, K: 300}), &rest); err != nil {
		t.Fatal(err)
	}
	if rest.look(); len(rest.got.rows) != 3400 || rest.got.rows[0] != 2300 || rest.got.at != whole.got.at {
		t.Errorf("%d rows from %d on, up to %v", len(rest.got.rows), rest.got.rows[0], rest.got.at)
	}
	if rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{})); err != nil || !rd.Schema().Equal(whole.schema) {
		t.Errorf("schema %v, or %v", whole.schema, err)
	} else {
		rd.Release()
	}
	if r.pipeline.MemoryInUse() != 0 && r.server.Streams() == 0 {
		t.Errorf("%d bytes are left", r.pipeline.MemoryInUse())
	}
}

// TestLocalEnds: refusals have the statuses of DoGet, and the receiver's own error comes back.
func TestLocalEnds(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 5000)
	req := r.request(t, pipeline.Cursor{})
	enough := errors.New("enough")
	if err := r.server.Local(t.Context(), req, &trainer{batch: func(context.Context) error { return enough }}); !errors.Is(err, enough) {
		t.Errorf("the receiver's error comes back as %v", err)
	}
	forged := proto.CloneOf(req)
	forged.Ticket.Signature[3] ^= 1
	if err := r.server.Local(t.Context(), forged, &trainer{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a forged ticket: %v", err)
	}
	waits := make(chan struct{})
	slow := &trainer{batch: func(ctx context.Context) error {
		close(waits)
		<-ctx.Done()
		return ctx.Err()
	}}
	ended := make(chan error)
	go func() { ended <- r.server.Local(t.Context(), req, slow) }()
	<-waits
	r.server.Drain()
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("a drain ends it with %v", err)
	}
}
