package rpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// street is a strangerListener, and who came to it.
type street struct {
	t      *testing.T
	pipe   *bufconn.Listener
	door   net.Listener
	inside chan net.Conn // who was let in
	reads  sync.WaitGroup
}

func newStreet(t *testing.T) *street {
	pipe := bufconn.Listen(1 << 10)
	s := &street{t: t, pipe: pipe, door: rpc.LimitStrangers(pipe), inside: make(chan net.Conn, 5000)}
	s.reads.Go(func() {
		for {
			conn, err := s.door.Accept()
			if err != nil {
				return
			}
			s.reads.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // until it is closed
			s.inside <- conn
		}
	})
	t.Cleanup(func() {
		if err := s.door.Close(); err != nil {
			t.Error(err)
		}
		close(s.inside)
		for conn := range s.inside {
			_ = conn.Close()
		}
		s.reads.Wait()
	})
	return s
}

// come makes a connection that nobody knows.
func (s *street) come() net.Conn {
	s.t.Helper()
	conn, err := s.pipe.DialContext(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// sentAway reports whether a connection was closed.
func sentAway(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)
}

func welcome(conn net.Conn) {
	rpc.Welcome(peer.NewContext(context.Background(), &peer.Peer{Addr: conn.RemoteAddr()}))
}

// TestStrangersMakeRoom: who is not known makes room for others once there are too many; who is known stays.
func TestStrangersMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		var all []net.Conn
		for range 1025 {
			all = append(all, s.come())
			synctest.Wait()
			if len(all) == 2 {
				<-s.inside
				welcome(<-s.inside)
			}
		}
		if n := len(s.inside); n != 1023 {
			t.Fatalf("%d were let in, want 1,023 besides the first two", n)
		}
		late := s.come()
		synctest.Wait()
		if n := len(s.inside); n != 1023 {
			t.Errorf("%d were let in while nobody had the time to say who he is", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(s.inside); n != 1024 {
			t.Errorf("%d were let in, want one more", n)
		}
		for i, conn := range append(all[:3:3], late) {
			if gone := sentAway(t, conn); gone != (i == 0) {
				t.Errorf("connection %d was sent away: %v", i, gone)
			}
		}
	})
}

// TestStrangersSendLittle: what strangers send is bounded for all of them together, and what others do is not.
func TestStrangersSendLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreet(t)
		send := func(conn net.Conn, bytes int) {
			_, _ = conn.Write(make([]byte, bytes)) // until it is sent away
			synctest.Wait()
		}
		known := s.come()
		synctest.Wait()
		send(known, 1<<20)
		welcome(<-s.inside)
		send(known, 100<<20)
		var all []net.Conn
		for range 5 {
			all = append(all, s.come())
			synctest.Wait()
			send(all[len(all)-1], 8<<20)
		}
		for i, conn := range append(all, known) {
			if gone := sentAway(t, conn); gone != (i == 0) {
				t.Errorf("connection %d was sent away: %v", i, gone)
			}
		}
		send(all[4], 33<<20) // others do not pay for one that alone is too much
		if !sentAway(t, all[4]) || sentAway(t, known) {
			t.Error("a stranger sends as much as it likes")
		}
	})
}
