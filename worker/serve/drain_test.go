package serve

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

func TestDrainMovesAStream(t *testing.T) {
	var store pipelinetest.Store
	r := newRig(t, &store, 1, nil).shard(t, 4000, 4000)
	rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	var d delivered
	if err := d.read(rd, func() bool { return len(d.rows) > 500 }); err != nil {
		t.Fatal(err)
	}
	r.server.Drain()
	if err := d.read(rd, never); status.Code(err) != codes.Unavailable {
		t.Fatalf("got %v after %d rows, want Unavailable", err, len(d.rows))
	}
	if len(d.rows) == 8000 {
		t.Fatal("the stream was not cut")
	}
	other := newRig(t, &store, 1, func(c *pipeline.Config) { c.BatchBytes = 3000 })
	other.ticket = r.ticket
	rest, err := other.get(t.Context(), t, other.request(t, d.at))
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Release()
	if err := d.read(rest, never); err != nil {
		t.Fatal(err)
	}
	d.check(t, 8000)
}

// A drain ends a stream that waits for storage, too.
func TestDrainDuringARead(t *testing.T) {
	store := &pipelinetest.Store{}
	r := newRig(t, store, 1, nil).shard(t, 20)
	store.Hook = func(ctx context.Context, _ *pb.File, _, _ int64) error {
		r.server.Drain()
		<-ctx.Done()
		return ctx.Err()
	}
	if _, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{})); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
}

// A stream that stands in a read that never returns holds up neither a drain nor, for longer than is waited, the
// worker's end, though its trainer has gone before.
func TestDrainOfAReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 10)
		dial := within(l)
		r := newRigOn(t, l, &pipelinetest.Store{}, 1, nil, dial).shard(t, 20)
		hangs := make(chan struct{})
		r.store.Hook = func(context.Context, *pb.File, int64, int64) error {
			<-hangs
			return errors.New("a disk that is there no more")
		}
		body, err := proto.Marshal(r.request(t, pipeline.Cursor{}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			answer <- r.server.serve(ctx, body, func(q *request) error {
				_, err := r.server.open(q)
				return err
			})
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		r.server.Drain()
		synctest.Wait()
		select {
		case err := <-answer:
			if status.Code(err) != codes.Unavailable {
				t.Errorf("the call ended with %v, want Unavailable", err)
			}
		default:
			t.Error("the call outlasts the drain")
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.server.Wait(ctx); err == nil || !strings.Contains(err.Error(), "mem://f.parquet") {
			t.Errorf("the end of the streams: %v; want one that names the file", err)
		}
		close(hangs)
	})
}

// A drain ends a stream whose trainer does not read, and gives back what it held. What was sent before can be read.
func TestDrainCutsASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 10)
		dial := within(l)
		r := newRigOn(t, l, &pipelinetest.Store{}, 1, nil, dial).shard(t, 4000, 4000, 4000)
		rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Release()
		synctest.Wait() // until the worker stands still
		if r.server.Streams() != 1 || r.pipeline.MemoryInUse() == 0 {
			t.Fatalf("%d streams hold %d bytes before the drain", r.server.Streams(), r.pipeline.MemoryInUse())
		}
		r.server.Drain()
		synctest.Wait()
		if r.server.Streams() != 0 || r.pipeline.MemoryInUse() != 0 {
			t.Errorf("%d streams hold %d bytes after the drain", r.server.Streams(), r.pipeline.MemoryInUse())
		}
		var d delivered
		if err := d.read(rd, never); status.Code(err) != codes.Unavailable || len(d.rows) == 0 ||
			len(d.rows) == 12_000 {
			t.Errorf("%d rows, then %v; want some, then Unavailable", len(d.rows), err)
		}
		d.check(t, len(d.rows))
	})
}
