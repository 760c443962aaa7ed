package serve

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// A stream whose trainer does not read gives its place, or its memory, to one that needs it, though not at once, and goes on
// where it was.
func TestHeldBackStreamYields(t *testing.T) {
	for _, c := range []struct {
		name   string
		slots  int
		change func(*pipeline.Config)
		asks   int // how often, until the other one is served
	}{
		{"place", 1, nil, 1},
		{"memory", 2, memoryForOne(t, 4000, 4000, 4000), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := bufconn.Listen(1 << 10)
				dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
				r := newRigOn(t, l, &pipelinetest.Store{}, c.slots, c.change, dial).shard(t, 4000, 4000, 4000)
				held, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
				if err != nil {
					t.Fatal(err)
				}
				defer held.Release()
				synctest.Wait() // until the worker stands still
				r.refused(t)
				time.Sleep(heldBack)
				for range c.asks - 1 {
					r.refused(t)
					synctest.Wait()
				}
				r.whole(t, 12_000)
				var d delivered
				if err := d.read(held, never); status.Code(err) != codes.ResourceExhausted || len(d.rows) == 0 || len(d.rows) == 12_000 {
					t.Errorf("%d rows, then %v; want some, then ResourceExhausted", len(d.rows), err)
				}
				rest, err := r.get(t.Context(), t, r.request(t, d.at))
				if err != nil {
					t.Fatal(err)
				}
				defer rest.Release()
				if err := d.read(rest, never); err != nil {
					t.Fatal(err)
				}
				d.check(t, 12_000)
			})
		})
	}
}

func (r *rig) refused(t *testing.T) {
	t.Helper()
	if _, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{})); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
}

func (r *rig) whole(t *testing.T, rows int) {
	t.Helper()
	rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	var d delivered
	if err := d.read(rd, never); err != nil {
		t.Fatal(err)
	}
	d.check(t, rows)
}
