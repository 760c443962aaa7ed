package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
)

// noisy is a connection whose Close fails, as TLS's does where the far side is gone.
type noisy struct{ net.Conn }

func (n noisy) Close() error {
	return errors.Join(n.Conn.Close(), errors.New("no alert could be sent"))
}

// slowly relays a connection: it takes all that comes at once, and passes it on a little at a time.
func slowly(t *testing.T, from net.Conn) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	pieces := make(chan []byte, 1<<12)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 4<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			pieces <- b[:n]
		}
	}()
	go func() {
		for b := range pieces {
			time.Sleep(time.Second / 8)
			if _, err := near.Write(b); err != nil {
				break
			}
		}
		_ = near.Close()
	}()
	go func() {
		_, _ = io.Copy(from, near)
		_ = from.Close()
	}()
	return far
}

// TestStatusComesLongBefore: a stream's status overtakes its batches on a slow network. They are waited for as long as
// they come.
func TestStatusComesLongBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		l := bufconn.Listen(1 << 20)
		conn := serveOn(t, s, l, nil,
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		links := wire.NewLinks("", func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				_, _ = io.ReadFull(far, make([]byte, len(wire.Preface))) // else Enter fails
				_ = s.linkServer.Enter(far)
			}()
			return slowly(t, near), nil
		})
		for range 2 {
			stream, err := wire.Get(t.Context(), conn, links, nil, new(wire.Pool))
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, stream)
			if b, err := stream.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("after its end the stream has %v, %v", b, err)
			}
			time.Sleep(10 * time.Second)
		}
		if n := s.byGRPC.Load(); n != 0 {
			t.Errorf("%d batches went by gRPC", n)
		}
		links.Close()
		s.linkServer.Close()
	})
}

// ending is a context that has ended, and has not run its functions yet.
type ending struct{ context.Context }

func (ending) AfterFunc(func()) func() bool { return func() bool { return true } }
func (ending) Value(any) any                { return nil }

// late is a call whose good status comes once its link was closed.
type late struct {
	grpc.ClientStream
	link net.Conn
}

func (l late) RecvMsg(any) error {
	_, err := l.link.Read(make([]byte, 1))
	return err
}

// TestCancelledAtItsEnd: a stream that is cancelled between its last batch and its status ends with an error.
func TestCancelledAtItsEnd(t *testing.T) {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	s := wire.Linked(ending{ctx}, late{link: far}, near)
	cancel()
	go func() { _, _ = far.Write(make([]byte, 16)) }() // else Next fails otherwise
	if _, err := s.Next(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestRefusedStreamKeepsItsLink: who asks a busy worker again and again opens one link, and hears the worker's own
// words.
func TestRefusedStreamKeepsItsLink(t *testing.T) {
	l := serveLinked(t)
	l.refuse = status.Error(codes.ResourceExhausted, "busy")
	for range 5 {
		_, err := wire.Get(t.Context(), l.conn, l.links, nil, new(wire.Pool))
		if s := status.Convert(err); s.Code() != codes.ResourceExhausted || s.Message() != "busy" {
			t.Errorf("a stream is refused with %q", s.Message())
		}
	}
	l.refuse = nil
	readAll(t, l.get(t.Context(), t))
	if n, by := l.dialed.Load(), l.byGRPC.Load(); n != 1 || by != 0 {
		t.Errorf("%d links were dialed, %d batches went by gRPC", n, by)
	}
}

// TestCloseFails: that a link cannot be closed well matters to no stream.
func TestCloseFails(t *testing.T) {
	s := &server{}
	option, err := rpc.Links(rpc.Config{}, wire.Preface, func(c net.Conn) error { return s.linkServer.Enter(noisy{c}) })
	if err != nil {
		t.Fatal(err)
	}
	conn := serve(t, s, option)
	links := wire.NewLinks("", func(ctx context.Context) (net.Conn, error) {
		c, err := rpc.LinkDialer(rpc.Config{})(ctx, s.address)
		return noisy{c}, err
	})
	defer links.Close()
	get := func() *wire.Stream {
		t.Helper()
		stream, err := wire.Get(t.Context(), conn, links, nil, new(wire.Pool))
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	s.fail = status.Error(codes.DataLoss, "row group 3 is no Parquet")
	stream := get()
	for err = nil; err == nil; {
		var b *wire.Batch
		if b, err = stream.Next(); err == nil {
			b.Release()
		}
	}
	if got := status.Convert(err); got.Code() != codes.DataLoss || got.Message() != "row group 3 is no Parquet" {
		t.Errorf("the stream ends with %v", err)
	}
	s.fail = nil
	stream = get()
	var closing sync.WaitGroup
	closing.Go(s.linkServer.Close) // while the link is in use, so that the worker closes it in the end
	readAll(t, stream)
	closing.Wait()
	readAll(t, get()) // which names it
}

// TestOtherServersLinks: links that lead to another server than the calls, as behind a balancer, are not opened for
// each stream.
func TestOtherServersLinks(t *testing.T) {
	l, other := serveLinked(t), serveLinked(t)
	for range 3 {
		s, err := wire.Get(t.Context(), l.conn, other.links, nil, new(wire.Pool))
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, s)
	}
	if n := other.dialed.Load(); n != 1 {
		t.Errorf("%d links were dialed", n)
	}
}

// TestOneTriesAgain: once no link could be opened, one stream at a time waits for another attempt.
func TestOneTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialed atomic.Int64
		links := wire.NewLinks("", func(ctx context.Context) (net.Conn, error) {
			dialed.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		take := func() {
			if _, ok := links.Take(t.Context()); ok {
				t.Error("got a link")
			}
		}
		take()
		time.Sleep(time.Minute)
		for range 3 {
			go take()
		}
		synctest.Wait()
		if n := dialed.Load(); n != 2 {
			t.Errorf("%d links were dialed", n)
		}
		time.Sleep(time.Minute)
	})
}

// counted is a connection that opens a link with any server, and counts the open ones.
type counted struct {
	net.Conn
	open *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) { return len(b), nil }
func (c counted) Read(b []byte) (int, error)  { return strings.NewReader("K").Read(b) }
func (c counted) Close() error {
	c.open.Add(-1)
	return nil
}

// TestIdleLinksAreClosed: after many streams at once come few; links that these do not need are closed.
func TestIdleLinksAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		links := wire.NewLinks("", func(context.Context) (net.Conn, error) {
			open.Add(1)
			return counted{open: &open}, nil
		})
		take := func() func() {
			back, ok := links.Take(t.Context())
			if !ok {
				t.Fatal("no link")
			}
			return back
		}
		first, second, third := take(), take(), take()
		first()
		second()
		third()
		for range 10 {
			back := take()
			time.Sleep(10 * time.Second)
			back()
		}
		if n := open.Load(); n != 1 {
			t.Errorf("%d links are open", n)
		}
		links.Close()
	})
}

// TestTheBestWayIsTriedAgain: where the best way to open links fails for a while, streams have those of the next, and
// no longer than that.
func TestTheBestWayIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var best, next, open atomic.Int64
		fails := errors.New("for a while")
		links := wire.NewWays(func(context.Context) (net.Conn, error) {
			best.Add(1)
			open.Add(1)
			return counted{open: &open}, fails
		}, func(context.Context) (net.Conn, error) {
			next.Add(1)
			open.Add(1)
			return counted{open: &open}, nil
		})
		take := func() {
			back, ok := links.Take(t.Context())
			if !ok {
				t.Fatal("no link")
			}
			back()
		}
		take()
		fails = nil
		for range 3 {
			time.Sleep(9 * time.Second)
			take()
		}
		if best.Load() != 1 || next.Load() != 1 {
			t.Errorf("the best way was tried %d times, and the next one %d times, before it may be again",
				best.Load(), next.Load())
		}
		for range 3 {
			time.Sleep(9 * time.Second)
			take()
		}
		if best.Load() != 2 || next.Load() != 1 {
			t.Errorf("the best way was tried %d times, and the next one %d times", best.Load(), next.Load())
		}
		links.Close()
	})
}

// TestStrangersTakeNoLinks: links that nobody's stream has used make room, and do not drive out those that one has.
func TestStrangersTakeNoLinks(t *testing.T) {
	l := serveLinked(t)
	readAll(t, l.get(t.Context(), t))
	var strangers []net.Conn
	for i := range 600 {
		near, far := net.Pipe()
		defer near.Close()
		strangers = append(strangers, near)
		entered := make(chan error, 1)
		go func() { entered <- l.linkServer.Enter(far) }()
		if _, err := near.Write([]byte{0: byte(i), 1: byte(i >> 8), 15: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(near, make([]byte, 1)); err != nil {
			t.Fatalf("stranger %d: %v", i, err)
		}
		if err := <-entered; err != nil {
			t.Fatal(err)
		}
	}
	readAll(t, l.get(t.Context(), t))
	if n, by := l.dialed.Load(), l.byGRPC.Load(); n != 1 || by != 0 {
		t.Errorf("%d links were dialed, %d batches went by gRPC", n, by)
	}
	if _, err := strangers[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the first stranger's link is there still: %v", err)
	}
}
