package feed

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// TestControlWithoutConnections: Serve keeps none of the files that came, and takes sessions as before.
func TestControlWithoutConnections(t *testing.T) {
	for name, files := range map[string]int{"no file": 0, "a file": 1, "two files": 2, "three files": 3} {
		t.Run(name, func(t *testing.T) {
			s := start(t, memory())
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			var rights []byte
			if files > 0 {
				rights = unix.UnixRights([]int{int(r.Fd()), int(r.Fd()), int(r.Fd())}[:files]...)
			}
			if _, _, err := s.control.WriteMsgUnix([]byte("s"), rights, nil); err != nil {
				t.Fatal(err)
			}
			s.answers(t)
			r.Close()
			if _, err := w.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
				t.Errorf("the file is still open: %v", err)
			}
		})
	}
	t.Run("TCP", func(t *testing.T) {
		s := start(t, memory())
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		file, err := peer.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.control.WriteMsgUnix([]byte("s"), unix.UnixRights(int(file.Fd())), nil); err != nil {
			t.Fatal(err)
		}
		s.answers(t)
		file.Close()
		peer.Close()
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is still open: %d bytes, %v", n, err)
		}
	})
}

// answers waits until Serve has gone on after all that was asked for.
func (s *server) answers(t *testing.T) {
	t.Helper()
	p := s.connect(t)
	if err := p.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if reply, err := p.reply(); !errors.Is(err, io.EOF) {
		t.Errorf("a session that asks for nothing gets %v, %v", reply, err)
	}
}

// TestEndOfServe by its context is no error.
func TestEndOfServe(t *testing.T) {
	_, control := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Serve(ctx, control, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestRequestsThatAreNone end their session's connection, and no other.
func TestRequestsThatAreNone(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	s := start(t, memory())
	good := s.connect(t)
	good.open(fl.join(t, 0, 1))
	for name, data := range map[string][]byte{
		"too long":   binary.LittleEndian.AppendUint32(nil, maxRequest+1),
		"not whole":  binary.LittleEndian.AppendUint32(nil, 10),
		"no length":  {1, 0},
		"no message": append(binary.LittleEndian.AppendUint32(nil, 2), "{]"...),
		"nothing":    nil,
	} {
		p := s.connect(t)
		if _, err := p.conn.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := p.conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if reply, err := p.reply(); err == nil {
			t.Errorf("%s: %v", name, reply)
		}
	}
	if reply := good.next(); reply.Batch == nil {
		t.Errorf("next: %v", reply)
	}
}

// TestAnnouncedBytesTakeNoMemory before they come.
func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	data := append(binary.LittleEndian.AppendUint32(nil, maxRequest), make([]byte, 1000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := receive(bytes.NewReader(data)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("a request of %d bytes, of which 1,000 came, took %d", maxRequest, n)
	}
}

// FuzzRequest sends any bytes, to a session or before there is one.
func FuzzRequest(f *testing.F) {
	for _, r := range []*request{
		{}, nextOf(longest), nextOf(0, 0, 1, 1<<63), stateOf(0, 1), closing(), {Open: &openRequest{Session: "x"}},
	} {
		f.Add(true, frame(f, r))
		f.Add(false, frame(f, r))
	}
	f.Add(true, []byte{1, 0, 0, 0})
	fl := newFleet(f, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	open := frame(f, &request{Open: fl.join(f, 0, 1)})
	f.Fuzz(func(t *testing.T, opened bool, data []byte) {
		if dials(data) {
			t.Skip("it opens a session on masters that are not ours")
		}
		if opened {
			data = append(bytes.Clone(open), data...)
		}
		ours, theirs := pair(t)
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			_, _ = ours.Write(data) // unless the other end closes before
			_ = ours.CloseWrite()
		})
		pool := memory()
		defer pool.close()
		ended := make(chan error, 1)
		go func() {
			ended <- newFeeder(theirs, nil, pool).run(t.Context())
		}()
		if _, err := io.Copy(io.Discard, ours); err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Error(err)
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("the session does not end")
		}
	})
}

// dials reports whether requests have a session opened that might be.
func dials(data []byte) bool {
	for from := bytes.NewReader(data); ; {
		r, err := receive(from)
		if err != nil {
			return false
		}
		if r.Open != nil && len(r.Open.Masters) > 0 {
			return true
		}
	}
}

// TestMemoryOfBrokenSessions is not used again: the program that sent what is no request may still read its batches.
func TestMemoryOfBrokenSessions(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 8}}, &fake.Worker{})
	s := start(t, memory())
	var held, values [][]int64
	for rank := range uint32(2) {
		p := s.connect(t)
		p.open(fl.join(t, rank, 2))
		b := p.next().Batch
		held, values = append(held, p.ids(b)), append(values, slices.Clone(p.ids(b)))
		if _, err := p.conn.Write(append(binary.LittleEndian.AppendUint32(nil, 2), "{]"...)); err != nil {
			t.Fatal(err)
		}
		if reply, err := p.reply(); err == nil {
			t.Errorf("answer: %v", reply)
		}
	}
	for rank, ids := range held {
		if !slices.Equal(ids, values[rank]) {
			t.Errorf("the batch of rank %d has changed", rank)
		}
	}
}

// TestEndLeavesBatches: a program may read what it holds for as long as it likes, though nobody serves it any more.
func TestEndLeavesBatches(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 8}}, &fake.Worker{})
	pool := memory()
	s := start(t, pool)
	p := s.connect(t)
	p.open(fl.join(t, 0, 1))
	b := p.next().Batch
	values := slices.Clone(p.ids(b))
	_ = s.control.Close()
	if err := s.end(t); err != nil {
		t.Fatal(err)
	}
	if pool.kept > 0 || !slices.Equal(p.ids(b), values) {
		t.Error("the batch has changed")
	}
}
