package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/internal/shared/sharedtest"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// near is a rig whose trainers are of its machine and user.
type near struct {
	*rig
	conn  *grpc.ClientConn
	links *wire.Links
}

func newNear(t *testing.T, slots int, groups ...int) *near {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	n := &near{rig: newRigOn(t, l, &pipelinetest.Store{}, slots, nil).shard(t, groups...)}
	if n.conn, err = grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	far := errors.New("no near link")
	n.links = wire.NewLinks(address, func(context.Context) (net.Conn, error) { return nil, far })
	listener, err := wire.ListenNear(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { n.server.ServeNear(ctx, listener) })
	t.Cleanup(func() {
		n.links.Close()
		cancel()
		serving.Wait()
		if err := n.conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// open opens a stream, and returns its first batch.
func (n *near) open(ctx context.Context, t *testing.T, at pipeline.Cursor) (*wire.Stream, *wire.Batch) {
	t.Helper()
	ticket, err := proto.Marshal(n.request(t, at))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := wire.Get(ctx, n.conn, n.links, ticket, new(wire.Pool))
	if err != nil {
		t.Fatal(err)
	}
	b, err := stream.Next()
	if err != nil {
		t.Fatal(err)
	}
	if !b.Lent || b.Way != wire.InMemory {
		t.Fatalf("the batch came by %s", b.Way)
	}
	return stream, b
}

// rest reads the rest of a stream's rows.
func rest(s *wire.Stream, b *wire.Batch) (delivered, error) {
	to, wait := newTrainer()
	var err error
	for ; err == nil; b, err = s.Next() {
		to.kept <- b
	}
	wait()
	return to.got, err
}

// TestNear: a trainer of the same user on this machine gets the same rows, from any cursor, stream by stream.
func TestNear(t *testing.T) {
	n := newNear(t, 1, 5000, 700)
	for range 5 {
		got, err := rest(n.open(t.Context(), t, pipeline.Cursor{}))
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		got.check(t, 5700)
		got, err = rest(n.open(t.Context(), t, pipeline.Cursor{Window: 2, K: 300}))
		if !errors.Is(err, io.EOF) || len(got.rows) != 3400 || got.rows[0] != 2300 {
			t.Fatalf("%d rows: %v", len(got.rows), err)
		}
	}
	if c := n.pipeline.Counters(); c.GetBytesLent() == 0 || c.GetBytesLent() != c.GetBytesSent() {
		t.Errorf("%d of %d bytes are counted as lent", c.GetBytesLent(), c.GetBytesSent())
	}
	if r := n.rig; r.pipeline.MemoryInUse() != 0 || r.server.Streams() != 0 {
		t.Errorf("%d streams hold %d bytes", r.server.Streams(), r.pipeline.MemoryInUse())
	}
}

// TestNearCut: whatever ends a stream whose trainer has a batch of it frees its place, and its memory but for what the
// trainer has. It learns why, and reads that, whatever the worker does then.
func TestNearCut(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(n *near, cancel func())
		want codes.Code
	}{
		"drain":     {func(n *near, _ func()) { n.server.Drain() }, codes.Unavailable},
		"yield":     {func(n *near, _ func()) { n.server.yield() }, codes.ResourceExhausted},
		"cancelled": {func(_ *near, cancel func()) { cancel() }, codes.Canceled},
	} {
		n := newNear(t, 1, 4000, 4000, 4000)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, b := n.open(ctx, t, pipeline.Cursor{})
		before := make([][]byte, len(b.Buffers))
		for i, buffer := range b.Buffers {
			before[i] = slices.Clone(buffer)
		}
		for n.server.Streams() > 0 { // one yields when it has been held back for a while
			c.cut(n, cancel)
			time.Sleep(time.Millisecond)
		}
		if used := n.pipeline.MemoryInUse(); used < b.Bytes {
			t.Errorf("%s: %d bytes are held after the cut; the trainer has %d", name, used, b.Bytes)
		}
		var err error
		for err == nil {
			var next *wire.Batch
			if next, err = stream.Next(); err == nil {
				next.Release()
			}
		}
		if errors.Is(err, io.EOF) || status.Code(err) != c.want {
			t.Errorf("%s: the stream ends with %v", name, err)
		}
		if name != "drain" {
			if _, err := rest(n.open(t.Context(), t, pipeline.Cursor{Window: 5})); !errors.Is(err, io.EOF) {
				t.Errorf("%s: the next stream ends with %v", name, err)
			}
		}
		if !slices.EqualFunc(before, b.Buffers, slices.Equal[[]byte]) {
			t.Errorf("%s: the batch is another one now", name)
		}
		b.Release()
		n.returned(t)
	}
}

// returned waits until no trainer has memory of a stream's any more.
func (n *near) returned(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); n.pipeline.MemoryInUse() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are held", n.pipeline.MemoryInUse())
		}
	}
}

// TestNearCutWhileItRuns: whenever a stream breaks off, no memory of it stays.
func TestNearCutWhileItRuns(t *testing.T) {
	n := newNear(t, 1, 4000, 4000, 4000)
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, b := n.open(ctx, t, pipeline.Cursor{})
		var err error
		for range i {
			b.Release()
			if b, err = stream.Next(); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		for n.server.Streams() > 0 {
			time.Sleep(time.Millisecond)
		}
		for err = nil; err == nil; {
			var next *wire.Batch
			if next, err = stream.Next(); err == nil {
				next.Release()
			}
		}
		b.Release()
	}
	n.returned(t)
	n.pipeline.Close()
	if left := sharedtest.Files(t); left != 0 {
		t.Errorf("%d files of memory are open still", left)
	}
}

// TestNearReturns: a stream has ended once its trainer has given back all; one that keeps a batch gives its place to
// another.
func TestNearReturns(t *testing.T) {
	n := newNear(t, 1, 50)
	stream, b := n.open(t.Context(), t, pipeline.Cursor{})
	asked := make(chan struct{})
	stream.Return = func() error { close(asked); return nil }
	ended := make(chan error)
	go func() {
		_, err := stream.Next()
		ended <- err
	}()
	<-asked
	select {
	case err := <-ended:
		t.Fatalf("it has ended with %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if n.server.Streams() != 1 {
		t.Error("its place is free")
	}
	b.Release()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	stream, b = n.open(t.Context(), t, pipeline.Cursor{})
	go func() {
		_, err := stream.Next()
		ended <- err
	}()
	for n.server.Streams() > 0 {
		n.server.yield()
		time.Sleep(time.Millisecond)
	}
	if err := <-ended; status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the one that keeps ends with %v", err)
	}
	b.Release()
}
