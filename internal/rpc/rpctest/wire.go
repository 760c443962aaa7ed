package rpctest

import (
	"net"
	"sync"
	"testing"
)

// Wire is a TCP connection that can be cut: what is sent then arrives once it is mended, and nobody is told.
type Wire struct {
	// Address is where it begins.
	Address string

	mu   sync.Mutex
	open chan struct{} // closed while bytes may pass
}

// NewWire leads connections to target ("host:port") until the test ends.
func NewWire(t testing.TB, target string) *Wire {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{Address: l.Addr().String(), open: make(chan struct{})}
	close(w.open)
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			all.Go(func() { <-done; _ = in.Close(); _ = out.Close() })
			all.Go(func() { w.pass(out, in, done) })
			all.Go(func() { w.pass(in, out, done) })
		}
	})
	t.Cleanup(func() {
		close(done)
		_ = l.Close()
		all.Wait()
	})
	return w
}

// pass copies bytes while the wire is whole.
func (w *Wire) pass(to, from net.Conn, done <-chan struct{}) {
	defer func() { _ = to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		open := w.open
		w.mu.Unlock()
		select {
		case <-open:
		case <-done:
			return
		}
		if _, e := to.Write(buf[:n]); err != nil || e != nil {
			return
		}
	}
}

// Cut lets nothing pass any more.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = make(chan struct{})
}

// Mend is the opposite of Cut.
func (w *Wire) Mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.open)
}
