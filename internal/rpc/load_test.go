package rpc_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// desk answers each request when it is told to.
type desk struct {
	healthpb.UnimplementedHealthServer
	at      string
	came    chan int      // a request, by its bytes
	answer  chan struct{} // closed: at once
	listed  chan struct{} // a List, which has a large answer
	stopped chan struct{} // a call that ended without an answer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{came: make(chan int, 100), answer: make(chan struct{}), listed: make(chan struct{}, 100), stopped: make(chan struct{}, 100)}
	s, err := rpc.NewServer(rpc.Config{MaxMessage: rpc.MaxRequest}, rpc.Guarded(func(ctx context.Context, _ rpc.Call) (context.Context, error) {
		rpc.Welcome(ctx)
		return ctx, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	healthpb.RegisterHealthServer(s, d)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.at = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(rpc.Doorstep(l)) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return d
}

// Check implements healthpb.HealthServer.
func (d *desk) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	d.came <- len(req.GetService())
	select {
	case <-d.answer:
		return &healthpb.HealthCheckResponse{}, nil
	case <-ctx.Done():
		d.stopped <- struct{}{}
		return nil, ctx.Err()
	}
}

// List implements healthpb.HealthServer.
func (d *desk) List(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	d.listed <- struct{}{}
	return &healthpb.HealthListResponse{Statuses: map[string]*healthpb.HealthCheckResponse{strings.Repeat("x", large): {}}}, nil
}

// Watch implements healthpb.HealthServer. Its request is there, and it goes on.
func (d *desk) Watch(_ *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	if err := stream.Send(&healthpb.HealthCheckResponse{}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// caller is a connection; send makes a call with a request of so many bytes.
type caller struct {
	t      *testing.T
	health healthpb.HealthClient
}

func (d *desk) caller(t *testing.T) *caller {
	t.Helper()
	conn, err := rpc.Dial(d.at, rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &caller{t, healthpb.NewHealthClient(conn)}
}

func (c *caller) send(bytes int, also ...grpc.CallOption) <-chan error {
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute) // for a request that nobody stops
		defer cancel()
		_, err := c.health.Check(ctx, &healthpb.HealthCheckRequest{Service: strings.Repeat("x", bytes)}, also...)
		ended <- err
	}()
	return ended
}

const large = rpc.MaxRequest - 1<<20

// TestRequestsUnderWay: requests that come all at once, or that wait for their answers, are bounded for all callers together. Who has
// the most under way loses its connection, and nobody else does.
func TestRequestsUnderWay(t *testing.T) {
	d := newDesk(t)
	modest := d.caller(t)
	mine := modest.send(1 << 20)
	<-d.came
	t.Run("coming", func(t *testing.T) {
		greedy := d.caller(t)
		var all []<-chan error
		for range 20 { // their frames go out in turns, so that none is there before most of all of them have come
			all = append(all, greedy.send(large))
		}
		for _, ended := range all {
			if err := <-ended; status.Code(err) != codes.Unavailable {
				t.Errorf("a request among %d MiB ends with %v", 20*large>>20, err)
			}
		}
	})
	for len(d.came) > 0 { // those that came in spite of it
		<-d.came
		<-d.stopped
	}
	t.Run("there", func(t *testing.T) {
		greedy := d.caller(t)
		var all []<-chan error
		for range 8 {
			all = append(all, greedy.send(large))
			<-d.came
		}
		if len(d.stopped) > 0 {
			t.Error("eight large requests are too many")
		}
		for _, ended := range append(all, greedy.send(large)) {
			if err := <-ended; status.Code(err) != codes.Unavailable {
				t.Errorf("of nine large requests one ends with %v", err)
			}
		}
		for range all {
			<-d.stopped
		}
	})
	close(d.answer)
	if err := <-mine; err != nil {
		t.Errorf("a modest caller's request ends with %v", err)
	}
	// What has been answered does not count any more, while something else goes on.
	stream, err := modest.health.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	for i := 0; i < 12 && err == nil; i++ {
		err = <-modest.send(large)
		<-d.came
	}
	if err != nil {
		t.Errorf("one large request after another: %v", err)
	}
}

// lists makes calls with large answers, one after the other, and takes none of them.
func (d *desk) lists(t *testing.T, conn *grpc.ClientConn, n int) (unread []grpc.ClientStream) {
	t.Helper()
	for range n {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, healthpb.Health_List_FullMethodName)
		if err == nil {
			err = stream.SendMsg(&healthpb.HealthListRequest{})
		}
		if err == nil {
			err = stream.CloseSend()
		}
		if err != nil {
			t.Fatal(err)
		}
		<-d.listed
		unread = append(unread, stream)
	}
	return unread
}

// TestAnswersUnderWay: answers that nobody takes count until they are written, though their handlers have long ended. Who asks for more
// and more of them loses its connection, and what it was owed counts no more.
func TestAnswersUnderWay(t *testing.T) {
	d := newDesk(t)
	for range 2 {
		conn, err := rpc.Dial(d.at, rpc.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		for range 2 { // what was taken counts no more
			for _, stream := range d.lists(t, conn, 8) {
				if err := stream.RecvMsg(&healthpb.HealthListResponse{}); err != nil {
					t.Errorf("of eight large answers one ends with %v", err)
				}
			}
		}
		d.lists(t, conn, 9)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if !conn.WaitForStateChange(ctx, connectivity.Ready) {
			t.Error("nine large answers that nobody takes lie at the server")
		}
	}
}

// TestNoCompressedRequests: a request is as large as what is sent.
func TestNoCompressedRequests(t *testing.T) {
	d := newDesk(t)
	close(d.answer)
	err := <-d.caller(t).send(1<<20, grpc.UseCompressor(gzip.Name))
	if err == nil || !strings.Contains(err.Error(), "takes no compressed requests") {
		t.Errorf("a compressed request ends with %v", err)
	}
}
