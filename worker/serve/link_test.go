package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// TestLinkCutInABatch: whatever ends a stream whose trainer has a part of a batch frees its place and its memory, and
// the trainer learns why.
func TestLinkCutInABatch(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(r *rig, cancel func())
		want codes.Code
	}{
		"drain":     {func(r *rig, _ func()) { r.server.Drain() }, codes.Unavailable},
		"yield":     {func(r *rig, _ func()) { r.server.yield() }, codes.ResourceExhausted},
		"cancelled": {func(_ *rig, cancel func()) { cancel() }, codes.Canceled},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := bufconn.Listen(1 << 10)
			dial := within(l)
			r := newRigOn(t, l, &pipelinetest.Store{}, 1, nil, dial).shard(t, 4000, 4000, 4000)
			conn, err := grpc.NewClient("passthrough:///bufconn", dial,
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			links := wire.NewLinks("", r.link)
			defer links.Close()
			ticket, err := proto.Marshal(r.request(t, pipeline.Cursor{}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := wire.Get(ctx, conn, links, ticket, new(wire.Pool))
			if err != nil {
				t.Fatal(err)
			}
			b, err := stream.Next()
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
			time.Sleep(2 * heldBack)
			if r.server.Streams() != 1 || r.pipeline.MemoryInUse() == 0 {
				t.Fatalf("%s: %d streams hold %d bytes before the cut",
					name, r.server.Streams(), r.pipeline.MemoryInUse())
			}
			c.cut(r, cancel)
			synctest.Wait()
			if r.server.Streams() != 0 || r.pipeline.MemoryInUse() != 0 {
				t.Errorf("%s: %d streams hold %d bytes after the cut",
					name, r.server.Streams(), r.pipeline.MemoryInUse())
			}
			for err = nil; err == nil; {
				if b, err = stream.Next(); err == nil {
					b.Release()
				}
			}
			if errors.Is(err, io.EOF) || status.Code(err) != c.want {
				t.Errorf("%s: the stream ends with %v", name, err)
			}
		})
	}
}

// link opens a link whose far side takes nothing that is not read.
func (r *rig) link(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		_, _ = io.ReadFull(far, make([]byte, len(wire.Preface))) // else Enter fails
		_ = r.server.Enter(far)
	}()
	return near, nil
}
