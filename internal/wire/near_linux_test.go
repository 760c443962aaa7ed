package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/shared"
	"github.com/penstock-ml/penstock/internal/shared/sharedtest"
	"github.com/penstock-ml/penstock/internal/wire"
)

// near is a server that lays its batches out in two pieces of shared memory, one after the other, and a client's near
// links to it.
type near struct {
	*linked
	free chan *shared.Memory
	lost atomic.Int64 // pieces that a client kept
	kept atomic.Int64 // their bytes that it has still
}

func serveNear(t *testing.T) *near {
	t.Helper()
	n := &near{linked: serveLinked(t), free: make(chan *shared.Memory, 2)}
	n.ended, n.move = make(chan error, 10), n.share
	for range cap(n.free) {
		n.free <- &shared.Memory{}
	}
	l, err := wire.ListenNear(t.Context(), n.address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { n.linkServer.ServeNear(ctx, l) })
	n.links = wire.NewLinks(n.address, n.dial)
	t.Cleanup(func() {
		cancel()
		serving.Wait()
		for range cap(n.free) {
			(<-n.free).Free()
		}
	})
	return n
}

// share is server.move.
func (n *near) share(ctx context.Context, b *wire.Batch) (release func(), err error) {
	select {
	case b.Memory = <-n.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if b.Memory.Bytes == nil {
		n.lost.Add(1)
		if b.Memory, err = shared.Make(16<<20, func(bytes int64) { n.kept.Add(bytes) }); err != nil {
			return nil, err
		}
	}
	at := 0
	for i, buf := range b.Buffers {
		n := copy(b.Memory.Bytes[at:], buf)
		b.Buffers[i] = b.Memory.Bytes[at : at+n]
		at += (n + wire.Alignment - 1) &^ (wire.Alignment - 1)
	}
	m := b.Memory
	m.Use(at)
	return func() { n.free <- m }, nil
}

// Batches of streams one after the other lie in the server's memory, which comes back, whatever compression is asked
// for.
func TestNearLinkLendsBatches(t *testing.T) {
	for _, how := range compressions {
		before := sharedtest.Files(t)
		n := serveNear(t)
		n.how = how
		for i := range 20 {
			s := n.get(t.Context(), t)
			var kept *wire.Batch
			for _, rec := range records() {
				got, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !got.Lent || got.Sent > 2<<10 {
					t.Fatalf("a batch is lent: %v; %d bytes of it were sent", got.Lent, got.Sent)
				}
				check(t, got, rec)
				if kept != nil {
					kept.Release()
				}
				kept = got
			}
			returned := false
			s.Return = func() error {
				returned = true
				kept.Release()
				return nil
			}
			if _, err := s.Next(); !errors.Is(err, io.EOF) || !returned {
				t.Fatalf("the stream ends with %v; what was kept was asked for: %v", err, returned)
			}
			if err := <-n.ended; err != nil || n.left.Load() != 0 || n.out.Load() != 0 {
				t.Fatalf("%d batches are out, %d not released: %v", n.left.Load(), n.out.Load(), err)
			}
			if files := sharedtest.Files(t) - before; files != cap(n.free) {
				t.Fatalf("stream %d: %d files of memory are open", i, files)
			}
		}
		if n.byGRPC.Load() != 0 || n.dialed.Load() != 0 || n.lost.Load() != 2 {
			t.Errorf("%d batches went by gRPC, %d links by network; %d pieces of memory were made",
				n.byGRPC.Load(), n.dialed.Load(), n.lost.Load())
		}
	}
}

// What a client keeps of a stream that breaks off stays as it is, and the server has other memory from then on.
func TestNearBatchesOfABrokenStreamStay(t *testing.T) {
	for name, fail := range map[string]error{
		"the client leaves": nil,
		"the server fails":  status.Error(codes.DataLoss, "test"),
	} {
		n := serveNear(t)
		n.fail = fail
		ctx, cancel := context.WithCancel(t.Context())
		s := n.get(ctx, t)
		var kept []*wire.Batch
		for range 2 {
			b, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, b)
		}
		if fail != nil { // what is to come needs memory
			kept[0].Release()
			kept = kept[1:]
			for range len(records()) - 2 {
				b, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				kept[0].Release()
				kept[0] = b
			}
			if _, err := s.Next(); status.Code(err) != codes.DataLoss {
				t.Errorf("%s: the stream ends with %v", name, err)
			}
		}
		cancel()
		if err := <-n.ended; err == nil {
			t.Errorf("%s: the stream ended well", name)
		}
		if n.left.Load() != 0 || n.out.Load() != 0 {
			t.Errorf("%s: %d batches are out, %d not released", name, n.left.Load(), n.out.Load())
		}
		n.fail = nil
		for range 2 {
			again := n.get(t.Context(), t)
			readAll(t, again)
			if err := <-n.ended; err != nil {
				t.Error(err)
			}
		}
		if lost := n.lost.Load() - 2; lost < int64(len(kept)) { // more, where one was on its way back
			t.Errorf("%s: %d pieces of memory were lost; %d batches were kept", name, lost, len(kept))
		}
		first := 0
		if fail != nil {
			first = len(records()) - 1
		}
		for i, b := range kept {
			check(t, b, records()[first+i])
			b.Release()
		}
	}
}

// What a client has of a stream that broke off counts until the last of its batches is released, or its server closes.
func TestNearBatchesCountUntilTheyAreReleased(t *testing.T) {
	n := serveNear(t)
	broken := func() (kept [2]*wire.Batch) {
		ctx, cancel := context.WithCancel(t.Context())
		s := n.get(ctx, t)
		inherited, err := s.Inherit()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { inherited.Close() })
		for i := range kept {
			var err error
			if kept[i], err = s.Next(); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-n.ended; err == nil {
			t.Error("the stream ended well")
		}
		if _, err := s.Next(); err == nil {
			t.Error("the stream goes on")
		}
		return kept
	}
	first, second := broken(), broken()
	all := n.kept.Load()
	if all == 0 {
		t.Fatal("nothing counts")
	}
	first[0].Release()
	second[0].Release()
	if n.kept.Load() != all {
		t.Errorf("a batch is out, and %d bytes count of %d", n.kept.Load(), all)
	}
	first[1].Release()
	await(t, "one client has released all", &n.kept, func(bytes int64) bool { return bytes > 0 && bytes < all })
	n.linkServer.Close()
	await(t, "the server has closed", &n.kept, func(bytes int64) bool { return bytes == 0 })
	check(t, second[1], records()[1])
	second[1].Release()
}

// What a client has of a stream counts until it closes the link, whether or not all had been sent when the server left.
func TestNearBatchesCountThoughAllWereSent(t *testing.T) {
	for _, all := range []bool{false, true} {
		ours, theirs := unixPair(t)
		var kept atomic.Int64
		m, err := shared.Make(100, func(bytes int64) { kept.Add(bytes) })
		if err != nil {
			t.Fatal(err)
		}
		m.Use(100)
		sender := wire.LendOn(t.Context(), ours)
		b := &wire.Batch{Rows: 1, Nodes: []wire.Node{{Length: 1}}, Buffers: [][]byte{nil, m.Bytes[:8]}, Memory: m}
		b.OnRelease(func() {})
		if err := sender.Send(b, func() {}); err != nil {
			t.Fatal(err)
		}
		if all {
			sender.Ends()
		}
		sender.Leave()
		if _, err := theirs.Write(make([]byte, 4)); err != nil { // the client leaves, too
			t.Fatal(err)
		}
		if kept.Load() != 100 {
			t.Errorf("all sent %v: %d bytes count", all, kept.Load())
		}
		theirs.Close()
		await(t, fmt.Sprintf("all sent %v, and the client is gone", all), &kept,
			func(bytes int64) bool { return bytes == 0 })
	}
}

// await waits until as many bytes count as is good.
func await(t *testing.T, when string, kept *atomic.Int64, good func(bytes int64) bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !good(kept.Load()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %d bytes count", when, kept.Load())
		}
	}
}

// Where a near link leads to another server than calls do, streams come by network from then on.
func TestNearLinkToAnotherServer(t *testing.T) {
	n, other := serveNear(t), serveNear(t)
	links := wire.NewLinks(other.address, n.dial)
	defer links.Close()
	for range 3 {
		s, err := wire.Get(t.Context(), n.conn, links, nil, new(wire.Pool))
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, s)
		if err := <-n.ended; err != nil {
			t.Error(err)
		}
	}
	if n.dialed.Load() != 1 || n.byGRPC.Load() != int64(len(records())) {
		t.Errorf("%d links were opened by network; %d batches went by gRPC", n.dialed.Load(), n.byGRPC.Load())
	}
}

func TestNearLinksAreOfOneUser(t *testing.T) {
	ours, theirs := unixPair(t)
	if err := wire.OfUser(ours, os.Geteuid()); err != nil {
		t.Error(err)
	}
	if err := wire.OfUser(theirs, os.Geteuid()+1); err == nil {
		t.Error("another user's process was taken for this one's")
	}
}

// A client may give back only what it has, and all of that.
func TestNearClientGivesBackWhatItHasNot(t *testing.T) {
	for name, numbers := range map[string]func(lent uint32) []uint32{
		"another's":   func(lent uint32) []uint32 { return []uint32{lent + 1} },
		"twice":       func(lent uint32) []uint32 { return []uint32{lent, lent} },
		"not all":     func(uint32) []uint32 { return []uint32{0} },
		"too early":   func(lent uint32) []uint32 { return []uint32{lent, 0} },
		"what it has": func(lent uint32) []uint32 { return []uint32{lent, 0} },
	} {
		ours, theirs := unixPair(t)
		m, err := shared.Make(100, func(int64) {})
		if err != nil {
			t.Fatal(err)
		}
		sender, released := wire.LendOn(t.Context(), ours), false
		b := &wire.Batch{Rows: 1, Nodes: []wire.Node{{Length: 1}}, Buffers: [][]byte{nil, m.Bytes[:8]}, Memory: m}
		b.OnRelease(func() { released = true })
		if err := sender.Send(b, func() {}); err != nil {
			t.Fatal(err)
		}
		if name != "too early" {
			sender.Ends()
		}
		for _, number := range numbers(m.Number) {
			if _, err := theirs.Write(binary.LittleEndian.AppendUint32(nil, number)); err != nil {
				t.Fatal(err)
			}
		}
		err = sender.Given()
		if good := name == "what it has"; good != (err == nil) || !released ||
			(m.Bytes == nil) != (name == "another's" || name == "not all") {
			t.Errorf("%s: %v; the batch was released: %v, its memory is lost: %v", name, err, released, m.Bytes == nil)
		}
		m.Free()
	}
}

// Memory that a server names is checked before it is read.
func TestNearServerNamesWhatItHasNot(t *testing.T) {
	memory := func(n int) int {
		m, err := shared.Make(n, func(int64) {})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Free)
		return m.File()
	}
	unsealed, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(unsealed, 4096)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(unsealed) //nolint:errcheck // nothing was written by it
	type message struct {
		number uint32
		body   uint32
		files  []int
	}
	for name, c := range map[string]struct {
		messages []message
		good     int
	}{
		"memory":             {[]message{{7, 4096, []int{memory(4096)}}}, 1},
		"two":                {[]message{{7, 10, []int{memory(4096)}}, {8, 10, []int{memory(4096)}}}, 2},
		"files before":       {[]message{{7, 10, []int{memory(4096), memory(4096)}}, {8, 10, nil}}, 2},
		"without a file":     {[]message{{7, 10, nil}}, 0},
		"not given back":     {[]message{{7, 10, []int{memory(4096)}}, {7, 10, nil}}, 1},
		"longer than it is":  {[]message{{7, 4097, []int{memory(4096)}}}, 0},
		"could be cut short": {[]message{{7, 10, []int{unsealed}}}, 0},
		"more than it takes": {[]message{{7, 10, slices.Repeat([]int{memory(10)}, 80)}, {8, 10, []int{memory(10)}}}, 0},
		"a great many files": {[]message{
			{7, 10, slices.Repeat([]int{memory(10)}, 40)},
			{8, 10, slices.Repeat([]int{memory(10)}, 40)},
		}, 1},
	} {
		ours, theirs := unixPair(t)
		before := sharedtest.Files(t)
		link := wire.NewLink(ours)
		for _, m := range c.messages {
			var b []byte
			for _, n := range []uint32{8, 0, m.body | 1<<31, m.number} {
				b = binary.LittleEndian.AppendUint32(b, n)
			}
			if _, _, err := theirs.(*net.UnixConn).WriteMsgUnix(append(b, "a header"...), unix.UnixRights(m.files...),
				nil); err != nil {
				t.Fatal(err)
			}
		}
		theirs.Close()
		good := 0
		for {
			body, err := link.Receive()
			if err != nil {
				break
			}
			good++
			if !bytes.Equal(body, make([]byte, c.messages[good-1].body)) {
				t.Errorf("%s: got %d bytes", name, len(body))
			}
		}
		if good != c.good {
			t.Errorf("%s: %d messages came, want %d", name, good, c.good)
		}
		link.Close()
		if after := sharedtest.Files(t); after != before {
			t.Errorf("%s: %d files of memory were open, and %d are when both ends have been closed",
				name, before, after)
		}
	}
}

// unixPair is a connection's two ends.
func unixPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), fmt.Sprint("end ", i))
		conns[i], err = net.FileConn(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conns[i].Close() })
	}
	return conns[0], conns[1]
}

// A second server at an address has no near links, and says why; the first one's stay.
func TestNearNameIsTaken(t *testing.T) {
	n := serveNear(t)
	if _, err := wire.ListenNear(t.Context(), n.address); err == nil || !strings.Contains(err.Error(), "near links") {
		t.Errorf("it listens: %v", err)
	}
	readAll(t, n.get(t.Context(), t))
	if err := <-n.ended; err != nil || n.dialed.Load() != 0 {
		t.Errorf("%v; %d links were opened by network", err, n.dialed.Load())
	}
}
