package wire_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/penstock-ml/penstock/internal/wire"
)

// visitor is the client of a link in a linkServer.
type visitor struct {
	net.Conn
	name string
}

// enter opens a link, which waits for its first stream then.
func enter(t *testing.T, linkServer *wire.LinkServer, i int) *visitor {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = near.Close() })
	v := &visitor{near, string(binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i)))}
	go func() { _ = linkServer.Enter(far) }()
	if _, err := io.WriteString(near, v.name); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(near, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, near) }()
	synctest.Wait()
	time.Sleep(time.Millisecond) // one waits longer than the next
	return v
}

// stream has a caller's stream, without batches, use the link.
func (v *visitor) stream(t *testing.T, linkServer *wire.LinkServer, caller string) {
	t.Helper()
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("penstock-link-bin", v.name))
	sender, err := linkServer.Sender(ctx, accepting{}, caller, wire.None, new(wire.Pool))
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Close(nil); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond)
}

// accepting is a call of which nothing else is used.
type accepting struct{ grpc.ServerStream }

func (accepting) SendHeader(metadata.MD) error { return nil }

// TestClosedLinksLeave: a link that its client closes is closed at once, in a stream's use or not.
func TestClosedLinksLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var linkServer wire.LinkServer
		defer linkServer.Close()
		for i := range 300 {
			v := enter(t, &linkServer, i)
			if i%2 == 0 {
				v.stream(t, &linkServer, "caller")
			}
			_ = v.Close()
			if synctest.Wait(); linkServer.Open() > 0 || linkServer.Waits(v.name) {
				t.Fatalf("link %d is kept, and its client has closed it", i)
			}
		}
	})
}

// TestLinksMakeRoom: where places are short a caller's own link goes, that which has waited longest, or that of all.
// Links that had no stream drive out none that had one.
func TestLinksMakeRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		callers   []string // of links, one after the other; "": none has a stream
		from, end int      // those that wait
	}{
		"one caller":   {callers: repeat(100, "a"), from: 36, end: 100},
		"two callers":  {callers: append(repeat(1, "a"), repeat(64, "b")...), from: 0, end: 65},
		"many callers": {callers: repeat(260, "a", "b", "c", "d", "e"), from: 4, end: 260},
		"no streams":   {callers: repeat(100, ""), from: 36, end: 100},
		"most had streams": {
			callers: append(repeat(250, "a", "b", "c", "d", "e"), repeat(64, "")...), from: 0,
			end: 314,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var linkServer wire.LinkServer
			defer linkServer.Close()
			var links []*visitor
			for i, caller := range tc.callers {
				v := enter(t, &linkServer, i)
				if caller != "" {
					v.stream(t, &linkServer, caller)
				}
				links = append(links, v)
			}
			for i, v := range links {
				if want := i >= tc.from && i < tc.end; linkServer.Waits(v.name) != want {
					t.Errorf("%s: link %d waits: %v", name, i, !want)
				}
			}
		})
	}
}

// repeat is n callers, in turn.
func repeat(n int, callers ...string) (out []string) {
	for i := range n {
		out = append(out, callers[i%len(callers)])
	}
	return out
}
