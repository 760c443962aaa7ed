package rpc_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// desk answers each request when it is told to.
type desk struct {
	healthpb.UnimplementedHealthServer
	at      string
	came    chan int      // a request, by its bytes
	answer  chan struct{} // closed: at once
	list    atomic.Int64  // bytes that a List answers
	stopped chan struct{} // a call that ended without an answer
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newDeskAt(t, l)
}

func newDeskAt(t *testing.T, l net.Listener) *desk {
	t.Helper()
	d := &desk{
		at: l.Addr().String(), came: make(chan int, 100), answer: make(chan struct{}),
		stopped: make(chan struct{}, 100),
	}
	s, err := rpc.NewServer(rpc.Config{MaxMessage: rpc.MaxRequest},
		rpc.Guarded(func(ctx context.Context, _ rpc.Call) (context.Context, error) {
			rpc.Welcome(ctx)
			return ctx, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	healthpb.RegisterHealthServer(s, d)
	served := make(chan error, 1)
	go func() { served <- s.Serve(rpc.LimitStrangers(l)) }()
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
	return &healthpb.HealthListResponse{Statuses: map[string]*healthpb.HealthCheckResponse{
		strings.Repeat("x", int(d.list.Load())): {},
	}}, nil
}

// Watch implements healthpb.HealthServer. It takes its request, and goes on.
func (d *desk) Watch(_ *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	rpc.Taken(stream.Context())
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

// TestRequestsUnderWay: requests that come all at once, or that wait for their answers, are bounded for all callers
// together. Who has the most under way loses its connection, and nobody else does.
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
	for i := 0; i < 12 && err == nil; i++ {
		if stream, err = modest.health.Watch(t.Context(),
			&healthpb.HealthCheckRequest{Service: strings.Repeat("x", large)}); err == nil {
			_, err = stream.Recv()
		}
	}
	if err != nil {
		t.Errorf("streams whose large requests were taken: %v", err)
	}
}

// lists makes a call whose answer it does not take. It reports whether there will be one.
func lists(ctx context.Context, t *testing.T, conn *grpc.ClientConn) (unread grpc.ClientStream, ok bool) {
	t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, healthpb.Health_List_FullMethodName)
	if err == nil {
		err = stream.SendMsg(&healthpb.HealthListRequest{})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
	header, err := stream.Header()
	return stream, err == nil && header != nil
}

// TestAnswersUnderWay: answers that nobody takes count until they are written, though their handlers have long ended.
// Who finds no room is refused, there is some left for others, and nobody loses a connection who takes what there is
// for him in time.
func TestAnswersUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := bufconn.Listen(1 << 20)
		d := newDeskAt(t, pipe)
		dial := func() *grpc.ClientConn {
			t.Helper()
			conn, err := grpc.NewClient("passthrough:///desk", grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					return pipe.DialContext(ctx)
				}),
				grpc.WithStaticStreamWindowSize(1<<20),
				grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(rpc.MaxRequest)))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		take := func(stream grpc.ClientStream) error { return stream.RecvMsg(&healthpb.HealthListResponse{}) }
		well := dial()
		asks := func(conn *grpc.ClientConn, bytes int64, times int) (all []grpc.ClientStream) {
			t.Helper()
			d.list.Store(bytes)
			for range times {
				stream, ok := lists(t.Context(), t, conn)
				if all = append(all, stream); !ok {
					t.Fatalf("%d MiB are refused: %v", bytes>>20, take(stream))
				}
			}
			return all
		}
		for range 3 { // what nobody waits for any more counts no more
			ctx, cancel := context.WithCancel(t.Context())
			d.list.Store(large)
			for range 4 {
				if _, ok := lists(ctx, t, well); !ok {
					t.Fatal("what was given up counts still")
				}
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
		}
		d.list.Store(64 << 20)
		if stream, ok := lists(t.Context(), t, well); ok {
			t.Error("an answer for which there is never room is given")
		} else if err := take(stream); status.Code(err) != codes.ResourceExhausted ||
			!strings.Contains(err.Error(), "and may have 67108864; ask for less") {
			t.Errorf("an answer for which there is never room ends with %v", err)
		}
		mine := asks(well, large, 2)
		var owed []grpc.ClientStream
		for i := range 20 {
			stream, ok := lists(t.Context(), t, dial())
			if ok {
				owed = append(owed, stream)
			} else if err := take(stream); status.Code(err) != codes.ResourceExhausted ||
				!strings.Contains(err.Error(), "try again") {
				t.Errorf("unread answer %d ends with %v", i, err)
			}
		}
		if n := len(owed); n != 5 {
			t.Errorf("%d large answers lie at the server beside two, want 5", n)
		}
		for _, stream := range append(mine, asks(dial(), 8<<20, 1)...) {
			if err := take(stream); err != nil {
				t.Errorf("an answer that is taken ends with %v", err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if state := well.GetState(); state != connectivity.Ready {
			t.Errorf("the connection of one who is well is %v", state)
		}
		asks(well, large, 4)
		for _, stream := range owed {
			if err := take(stream); status.Code(err) != codes.Unavailable {
				t.Errorf("an answer that nobody took for a minute ends with %v", err)
			}
		}
	})
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
