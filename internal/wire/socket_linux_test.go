package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/wire"
)

// pair is both ends of a TCP connection.
func pair(t *testing.T) (client *net.TCPConn, worker net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if worker, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Close() })
	return conn.(*net.TCPConn), worker
}

// awaited is how many bytes wake a connection's reader.
func awaited(t *testing.T, conn *net.TCPConn) (n int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	failed := raw.Control(func(fd uintptr) { n, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT) })
	if err := errors.Join(failed, err); err != nil {
		t.Fatal(err)
	}
	return n
}

// untilAsleep waits until a connection's reader awaits more than a byte.
func untilAsleep(t *testing.T, conn *net.TCPConn) int {
	t.Helper()
	for t.Context().Err() == nil {
		if n := awaited(t, conn); n > 1 {
			return n
		}
		time.Sleep(time.Millisecond)
	}
	return 0
}

// line is a message on a link: of a body alone, which may be shorter than it says.
func line(body []byte, says int) []byte { return lineOf(body, says, 0) }

// lineOf is a message with so many bytes after it, or so it says.
func lineOf(body []byte, says, follows int) []byte {
	le := binary.LittleEndian
	return append(le.AppendUint32(le.AppendUint32(make([]byte, 8), uint32(says)), uint32(follows)), body...)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// TestBodiesArrive: bodies of any size arrive as they were sent, however they come. Their reader sleeps until the end
// of one is there, and waits for nothing after it, as a small message there shows.
func TestBodiesArrive(t *testing.T) {
	const limit = 256 << 10
	for _, size := range []int{1, 4 << 10, 64<<10 + 1, limit - 1, limit, limit + 1, 3*limit + 1, 9 << 20} {
		conn, worker := pair(t)
		l := wire.NewLink(conn)
		body := random(size)
		data := line(body, size)
		for _, late := range []int{0, 1, size / 2, size - 1} {
			received := make(chan []byte)
			go func() {
				got, err := l.Receive()
				if err != nil {
					t.Error(err)
				}
				received <- got
			}()
			if _, err := worker.Write(data[:len(data)-late]); err != nil {
				t.Fatal(err)
			}
			if late > 64<<10 {
				if n := untilAsleep(t, conn); n > late {
					t.Errorf("body of %d bytes: %d are awaited, %d will come", size, n, late)
				}
			}
			if _, err := worker.Write(data[len(data)-late:]); err != nil {
				t.Fatal(err)
			}
			if got := <-received; !bytes.Equal(got, body) {
				t.Errorf("body of %d bytes, of which %d are late: other bytes came", size, late)
			}
			if _, err := worker.Write(line([]byte{7}, 1)); err != nil {
				t.Fatal(err)
			}
			if got, err := l.Receive(); err != nil || !bytes.Equal(got, []byte{7}) {
				t.Fatalf("after a body of %d bytes %d bytes come: %v", size, len(got), err)
			}
		}
	}
}

// TestRunArrives: the reader of messages that were written at once sleeps until both have come, or a part of bounded
// size.
func TestRunArrives(t *testing.T) {
	for _, size := range []int{1, 64 << 10, 512 << 10, 3 << 20} {
		conn, worker := pair(t)
		l := wire.NewLink(conn)
		first, second := random(size), random(size+1)
		after := line(second, len(second))
		data := append(lineOf(first, len(first), len(after)), after...)
		received := make(chan []byte, 2)
		go func() {
			for range 2 {
				got, err := l.Receive()
				if err != nil {
					t.Error(err)
				}
				received <- got
			}
		}()
		const began = 20 // bytes of it
		if _, err := worker.Write(data[:began]); err != nil {
			t.Fatal(err)
		}
		if left := len(data) - began; size > 1 {
			if n := untilAsleep(t, conn); n != min(left, 1<<20) {
				t.Errorf("messages of %d bytes: %d are awaited, %d will come", size, n, left)
			}
		}
		if _, err := worker.Write(data[began:]); err != nil {
			t.Fatal(err)
		}
		if got := <-received; !bytes.Equal(got, first) {
			t.Errorf("other bytes came for the first message of %d", size)
		}
		if got := <-received; !bytes.Equal(got, second) {
			t.Errorf("other bytes came for the second message of %d", size)
		}
	}
}

// over is a call whose status says that the worker has gone, once it came.
type over struct {
	grpc.ClientStream
	came chan struct{}
}

func (o over) RecvMsg(any) error {
	<-o.came
	return status.Error(codes.Unavailable, "the worker has gone")
}

// TestBodyIsAnnouncedOnly: whoever announces a large body, or much after it, and sends little has a bounded number of
// bytes awaited, and to end the stream or the connection ends the wait.
func TestBodyIsAnnouncedOnly(t *testing.T) {
	for name, announced := range map[string][]byte{
		"a body":     line(make([]byte, 100), 200<<20),
		"what comes": lineOf(make([]byte, 100), 200, 200<<20),
	} {
		for how, end := range map[string]func(cancel func(), worker net.Conn){
			"the client leaves": func(cancel func(), _ net.Conn) { cancel() },
			"the worker is killed": func(_ func(),
				worker net.Conn,
			) {
				_ = worker.(*net.TCPConn).SetLinger(0)
				_ = worker.Close()
			},
			"the worker says so": func(_ func(), worker net.Conn) { _ = worker.(*net.TCPConn).CloseWrite() },
			"the worker sends less": func(_ func(), worker net.Conn) {
				_,
					_ = worker.Write(make([]byte, 1<<10))
				_ = worker.Close()
			},
		} {
			endsWait(t, name+" is announced, "+how, announced, end)
		}
	}
}

func endsWait(t *testing.T, name string, announced []byte, end func(cancel func(), worker net.Conn)) {
	t.Helper()
	conn, worker := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	call := over{came: make(chan struct{})}
	s := wire.Linked(ctx, call, conn)
	if _, err := worker.Write(announced); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := s.Next()
		ended <- err
	}()
	if n := untilAsleep(t, conn); n > 1<<20 {
		t.Errorf("%s: %d bytes are awaited", name, n)
	}
	end(cancel, worker)
	close(call.came)
	if err := <-ended; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%s: the stream ends with %v", name, err)
	}
}

// TestHurryWakesForEachByte: once a stream's status has come, a part of a body counts, and its reader does not sleep
// until there is more.
func TestHurryWakesForEachByte(t *testing.T) {
	conn, worker := pair(t)
	l := wire.NewLink(conn)
	body := random(1 << 20)
	data := line(body, len(body))
	received := make(chan []byte)
	go func() {
		got, err := l.Receive()
		if err != nil {
			t.Error(err)
		}
		received <- got
	}()
	if _, err := worker.Write(data[:100]); err != nil {
		t.Fatal(err)
	}
	untilAsleep(t, conn)
	l.Hurry()
	if n := awaited(t, conn); n != 1 {
		t.Errorf("%d bytes are awaited", n)
	}
	if _, err := worker.Write(data[100 : len(data)/2]); err != nil {
		t.Fatal(err)
	}
	if n := awaited(t, conn); n != 1 {
		t.Errorf("%d bytes are awaited", n)
	}
	if _, err := worker.Write(data[len(data)/2:]); err != nil {
		t.Fatal(err)
	}
	if got := <-received; !bytes.Equal(got, body) {
		t.Error("other bytes came")
	}
}
