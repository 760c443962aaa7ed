package rpc

import (
	"container/list"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
)

const (
	// maxStrangers bounds the connections of which no caller is known yet. One more waits until the one that has been
	// there longest has had patience, and takes its place.
	maxStrangers = 1024
	patience     = time.Second
	// maxStrange bounds what strangers have sent, in bytes, all together: the one that has been there longest is sent
	// away for more. It is as much as they can have a process hold. strangeCall is what a call costs besides its bytes.
	maxStrange  = 32 << 20
	strangeCall = 16 << 10
)

// LimitStrangers is a listener whose connections are strangers' until Welcome. All strangers together take no more than
// a bounded part of the process, whatever they send, and make room for each other: a flood of them keeps nobody out who
// is soon known. What those send who are known is bounded, too: see load.
func LimitStrangers(l net.Listener) net.Listener {
	return &strangerListener{
		Listener: l, left: make(chan struct{}, 1), closed: make(chan struct{}),
		loads: loads{of: map[*stranger]struct{}{}},
	}
}

// Welcome says that a call's caller is known, and with it the connection. It does nothing for what did not come over a
// strangerListener.
func Welcome(ctx context.Context) {
	if s := strangerOf(ctx); s != nil {
		s.door.forget(s)
	}
}

// strangerOf is the connection of a call, nil if it did not come over a strangerListener.
func strangerOf(ctx context.Context) *stranger {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	from, _ := p.Addr.(from)
	return from.conn
}

type strangerListener struct {
	net.Listener
	left   chan struct{} // gets one when a stranger has left
	closed chan struct{}
	once   sync.Once

	mu        sync.Mutex
	strangers list.List // of *stranger, from the one that has been there longest
	bytes     int64     // that they sent
	loads
}

// stranger is a connection whose caller has not authenticated yet. Once it has, the connection is used as any other.
type stranger struct {
	net.Conn
	door  *strangerListener
	since time.Time
	known atomic.Bool // it is no stranger's any more
	// Under door.mu:
	place *list.Element // nil then
	bytes int64
	load
}

// from is an address that leads back to its connection.
type from struct {
	net.Addr
	conn *stranger
}

// Accept implements net.Listener.
func (d *strangerListener) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !d.makeRoom() {
		_ = conn.Close() // nobody has it
		return nil, net.ErrClosed
	}
	s := &stranger{Conn: conn, door: d, since: time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.place = d.strangers.PushBack(s)
	return s, nil
}

// makeRoom waits until there is room for one more. It reports whether there is, before the listener is closed.
func (d *strangerListener) makeRoom() bool {
	for {
		d.mu.Lock()
		if d.strangers.Len() < maxStrangers {
			d.mu.Unlock()
			return true
		}
		longest := d.strangers.Front().Value.(*stranger) //nolint:forcetypeassert // the list has nothing else
		d.mu.Unlock()
		wait := patience - time.Since(longest.since)
		if wait <= 0 {
			_ = longest.Close() // who had it sees that
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-d.left:
		case <-d.closed:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// Close implements net.Listener.
func (d *strangerListener) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Listener.Close()
}

// forget takes a connection from the strangers, if it is one's.
func (d *strangerListener) forget(s *stranger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.place == nil {
		return
	}
	d.strangers.Remove(s.place)
	s.place = nil
	s.known.Store(true)
	d.bytes -= s.bytes
	select {
	case d.left <- struct{}{}:
	default:
	}
}

// charge adds to what a stranger has sent, and sends away who has been there longest while that is too much of all.
func (d *strangerListener) charge(s *stranger, n int64) {
	var away []*stranger
	d.mu.Lock()
	if s.place != nil {
		s.bytes += n
		d.bytes += n
	}
	over := d.bytes - maxStrange
	for e := d.strangers.Front(); e != nil && over > 0; e = e.Next() {
		longest := e.Value.(*stranger) //nolint:forcetypeassert // see above
		away, over = append(away, longest), over-longest.bytes
	}
	d.mu.Unlock()
	for _, s := range away {
		_ = s.Close() // who had it sees that
	}
}

// Read implements net.Conn.
func (s *stranger) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if !s.known.Load() {
		s.door.charge(s, int64(n))
	} else {
		s.door.carry(s, int64(n))
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom: the kernel can send files to a TCP connection.
func (s *stranger) ReadFrom(r io.Reader) (int64, error) { return io.Copy(s.Conn, r) }

// Close implements net.Conn.
func (s *stranger) Close() error {
	s.door.forget(s)
	s.door.waive(s)
	return s.Conn.Close()
}

// RemoteAddr implements net.Conn.
func (s *stranger) RemoteAddr() net.Addr { return from{s.Conn.RemoteAddr(), s} }
