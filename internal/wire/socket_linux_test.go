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
func line(body []byte, says int) []byte {
	return append(binary.LittleEndian.AppendUint64(make([]byte, 8), uint64(says)), body...)
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// TestBodiesArrive: bodies of any size arrive as they were sent, however they come. Their reader sleeps until the end of one is there,
// and waits for nothing behind it.
func TestBodiesArrive(t *testing.T) {
	const most = 256 << 10
	for _, size := range []int{1, 4 << 10, 64<<10 + 1, most - 1, most, most + 1, 3*most + 1, 9 << 20} {
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
			if n := awaited(t, conn); n != 1 {
				t.Errorf("behind a body of %d bytes %d are awaited", size, n)
			}
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

// TestBodyIsAnnouncedOnly: whoever announces a large body and sends little of it has a bounded number of bytes awaited, and to end the
// stream or the connection ends the wait.
func TestBodyIsAnnouncedOnly(t *testing.T) {
	for name, end := range map[string]func(cancel func(), worker net.Conn){
		"the client leaves":     func(cancel func(), _ net.Conn) { cancel() },
		"the worker is killed":  func(_ func(), worker net.Conn) { _ = worker.(*net.TCPConn).SetLinger(0); _ = worker.Close() },
		"the worker says so":    func(_ func(), worker net.Conn) { _ = worker.(*net.TCPConn).CloseWrite() },
		"the worker sends less": func(_ func(), worker net.Conn) { _, _ = worker.Write(make([]byte, 1<<10)); _ = worker.Close() },
	} {
		conn, worker := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		call := over{came: make(chan struct{})}
		s := wire.Linked(ctx, call, conn)
		if _, err := worker.Write(line(make([]byte, 100), 200<<20)); err != nil {
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
		cancel()
	}
}

// TestHurryWakesForEachByte: once a stream's status has come, a part of a body counts, and its reader does not sleep until there is more.
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
