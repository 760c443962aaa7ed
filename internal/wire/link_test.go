package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
)

// linked is a server whose port has links, and a client's links to it.
type linked struct {
	server
	conn   *grpc.ClientConn
	links  *wire.Links
	dialed atomic.Int64
	last   atomic.Pointer[net.Conn] // of the client
}

func serveLinked(t *testing.T) *linked {
	t.Helper()
	l := &linked{}
	option, err := rpc.Links(rpc.Config{}, wire.Preface, l.linkServer.Enter)
	if err != nil {
		t.Fatal(err)
	}
	l.conn = serve(t, &l.server, option)
	l.links = wire.NewLinks("", l.dial)
	t.Cleanup(func() {
		l.links.Close()
		l.linkServer.Close()
	})
	return l
}

// dial opens a connection to the port.
func (l *linked) dial(ctx context.Context) (net.Conn, error) {
	l.dialed.Add(1)
	conn, err := rpc.LinkDialer(rpc.Config{})(ctx, l.address)
	l.last.Store(&conn)
	return conn, err
}

// get opens a stream on a link, or by gRPC.
func (l *linked) get(ctx context.Context, t *testing.T) *wire.Stream {
	t.Helper()
	s, err := wire.Get(ctx, l.conn, l.links, nil, new(wire.Pool))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readAll checks that all records come, and the end.
func readAll(t *testing.T, s *wire.Stream) {
	t.Helper()
	for _, rec := range records() {
		got, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		check(t, got, rec)
		got.Release()
	}
	if _, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("the stream ends with %v", err)
	}
}

// TestLinkCarriesBatches: streams one after the other have the same link, and none of their batches comes by gRPC.
func TestLinkCarriesBatches(t *testing.T) {
	for _, how := range compressions {
		l := serveLinked(t)
		l.how = how
		for range 3 {
			readAll(t, l.get(t.Context(), t))
		}
		if n := l.dialed.Load(); n != 1 {
			t.Errorf("compression %d: %d links were dialed for three streams, one after the other", how, n)
		}
		if n := l.byGRPC.Load(); n != 0 {
			t.Errorf("compression %d: %d batches went by gRPC", how, n)
		}
	}
}

// TestWithoutLinks: where a server has no links, a stream comes by gRPC, and no link is tried for the next one.
func TestWithoutLinks(t *testing.T) {
	for name, dial := range map[string]func(context.Context, string) (net.Conn, error){
		"refused":    func(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") },
		"other port": rpc.LinkDialer(rpc.Config{}),
	} {
		s := &server{}
		conn := serve(t, s)
		dialed := 0
		links := wire.NewLinks("", func(ctx context.Context) (net.Conn, error) {
			dialed++
			return dial(ctx, s.address)
		})
		for range 2 {
			stream, err := wire.Get(t.Context(), conn, links, nil, new(wire.Pool))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			readAll(t, stream)
		}
		if dialed != 1 {
			t.Errorf("%s: %d links were tried", name, dialed)
		}
		links.Close()
	}
}

// TestLargeBatch: a batch of more bytes than are believed at once arrives.
func TestLargeBatch(t *testing.T) {
	rec := zeros(t, 4<<20)
	defer rec.Release()
	b := &wire.Batch{}
	if err := b.Flatten(rec); err != nil {
		t.Fatal(err)
	}
	b.Buffers[1][20<<20] = 7
	var pool wire.Pool
	n := 0
	for m := range wire.ReadLink(wire.LinkBytes(&pool, b), &pool) {
		got, err := m.Batch()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Buffers[1], b.Buffers[1]) {
			t.Error("other bytes came")
		}
		got.Release()
		n++
	}
	if n != 1 {
		t.Errorf("%d batches came", n)
	}
}

// TestLinkGone: a stream whose idle link the server has closed comes by gRPC.
func TestLinkGone(t *testing.T) {
	l := serveLinked(t)
	readAll(t, l.get(t.Context(), t))
	l.linkServer.Close()
	readAll(t, l.get(t.Context(), t))
	if l.byGRPC.Load() == 0 {
		t.Error("no batch came by gRPC")
	}
}

// TestIdleLinkClosed: a client notices that its server has closed an idle link, and opens another one for the next
// stream.
func TestIdleLinkClosed(t *testing.T) {
	l := serveLinked(t)
	readAll(t, l.get(t.Context(), t))
	l.linkServer.Expire()
	if _, err := (*l.last.Load()).Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the link ends with %v", err)
	}
	readAll(t, l.get(t.Context(), t))
	if links, batches := l.dialed.Load(), l.byGRPC.Load(); links != 2 || batches != 0 {
		t.Errorf("%d links were dialed, and %d batches went by gRPC", links, batches)
	}
}

// TestLinkBreaks: a stream whose link breaks ends with an error that lets the client go on elsewhere, never with its
// end.
func TestLinkBreaks(t *testing.T) {
	l := serveLinked(t)
	s := l.get(t.Context(), t)
	b, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	if err := (*l.last.Load()).Close(); err != nil {
		t.Fatal(err)
	}
	for err == nil { // what was read already comes first
		if b, err = s.Next(); err == nil {
			b.Release()
		}
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestStatusComesWithLink: a stream that fails in the middle brings what was sent before, and then why.
func TestStatusComesWithLink(t *testing.T) {
	l := serveLinked(t)
	l.fail = status.Error(codes.DataLoss, "row group 3 is no Parquet")
	s := l.get(t.Context(), t)
	for range records() {
		b, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if _, err := s.Next(); status.Code(err) != codes.DataLoss {
		t.Errorf("the stream ends with %v", err)
	}
	l.fail = nil
	readAll(t, l.get(t.Context(), t)) // on another link
}

// TestLinkCancelled: a client that goes ends its stream's sends, and all is released (serve checks that).
func TestLinkCancelled(t *testing.T) {
	l := serveLinked(t)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		s := l.get(ctx, t)
		b, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		cancel()
		if b, err := s.Next(); err == nil { // it had come
			b.Release()
		}
	}
	if n := l.byGRPC.Load(); n != 0 {
		t.Errorf("%d batches went by gRPC", n)
	}
}

// TestLinkServerIsBounded: whoever opens links for no stream does not fill the server's memory.
func TestLinkServerIsBounded(t *testing.T) {
	var linkServer wire.LinkServer
	var open atomic.Int64
	enter := func(i int) error {
		near, far := net.Pipe()
		t.Cleanup(func() { _ = near.Close() })
		open.Add(1)
		go func() {
			_, _ = near.Write(binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i))) // else Enter fails
			_, _ = io.Copy(io.Discard, near)
		}()
		return linkServer.Enter(closing{far, sync.OnceFunc(func() { open.Add(-1) })})
	}
	for i := range 1000 {
		if err := enter(i); err != nil {
			t.Fatal(err)
		}
	}
	if n := open.Load(); n == 0 || n == 1000 {
		t.Errorf("%d links wait", n)
	}
	linkServer.Close()
	if n := open.Load(); n != 0 {
		t.Errorf("%d links are open", n)
	}
	if err := enter(1000); err == nil || open.Load() != 0 {
		t.Errorf("a closed linkServer lets links in: %v", err)
	}
}

// closing counts the open connections.
type closing struct {
	net.Conn
	closed func()
}

func (c closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// FuzzLink receives any bytes on a link: they are refused, or are batches whose buffers can be read.
func FuzzLink(f *testing.F) {
	var pool wire.Pool
	for _, rec := range records()[:3] {
		b := &wire.Batch{Meta: []byte("meta")}
		if err := b.Flatten(rec); err != nil {
			f.Fatal(err)
		}
		data := wire.LinkBytes(&pool, b)
		f.Add(data)
		f.Add(append(data, data[:len(data)/2]...))
		run := wire.LinkBytes(&pool, b, b, b)
		f.Add(run)
		f.Add(run[:len(run)-1])
	}
	f.Add(make([]byte, 16))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(_ *testing.T, data []byte) {
		for m := range wire.ReadLink(data, &pool) {
			b, err := m.Batch()
			if err != nil {
				continue
			}
			for _, buf := range b.Buffers {
				_ = bytes.Count(buf, []byte{1})
			}
			b.Release()
		}
	})
}
