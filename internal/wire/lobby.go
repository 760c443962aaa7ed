package wire

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const (
	// mostWaiting bounds the links that wait at a server for a stream. Those that have had none are nobody's: a stream's caller is
	// authorised, a link's is not. They make room for each other.
	mostWaiting = 256
	// longestWait is how long a link may wait for a stream.
	longestWait = time.Minute
)

// Lobby is where a server's links wait for the streams that they are for. The zero value is ready for use; Close it.
type Lobby struct {
	mu      sync.Mutex
	waiting map[string]*link
	lenders map[*lender]struct{} // whose clients may have memory mapped
	lending sync.WaitGroup       // for them
	closed  bool
}

// Enter takes over a connection whose client opens a link. It reads the link's name, for which the connection's deadline
// holds; whoever calls it lifts that then.
func (l *Lobby) Enter(conn net.Conn) error {
	id := make([]byte, idBytes)
	if _, err := io.ReadFull(conn, id); err != nil {
		return errors.Join(err, conn.Close())
	}
	in := &link{Conn: conn, id: string(id)}
	if !l.keep(in) {
		return errors.Join(errors.New("wire: too many links wait for their streams"), conn.Close())
	}
	if _, err := conn.Write([]byte{accepted}); err != nil {
		l.drop(in)
		return err
	}
	return nil
}

// keep lets a link wait, if it may. The one that makes room for it is closed.
func (l *Lobby) keep(in *link) bool {
	l.mu.Lock()
	var longest *link
	defer func() {
		l.mu.Unlock()
		if longest != nil {
			_ = longest.Close() // see drop
		}
	}()
	if l.closed || l.waiting[in.id] != nil {
		return false
	}
	if len(l.waiting) >= mostWaiting {
		if longest = l.makeRoom(); longest == nil {
			return false
		}
	}
	if l.waiting == nil {
		l.waiting = map[string]*link{}
	}
	l.waiting[in.id] = in
	in.since = time.Now()
	in.expiry = time.AfterFunc(longestWait, func() { l.expire(in) })
	return true
}

// makeRoom takes out the link that has waited longest for its first stream, nil if there is none. l.mu must be held.
func (l *Lobby) makeRoom() (longest *link) {
	for _, in := range l.waiting {
		if !in.known && (longest == nil || in.since.Before(longest.since)) {
			longest = in
		}
	}
	if longest != nil {
		l.remove(longest)
	}
	return longest
}

// remove ends a link's wait. l.mu must be held.
func (l *Lobby) remove(in *link) {
	delete(l.waiting, in.id)
	in.expiry.Stop()
}

// expire closes a link that has waited too long. One that was used meanwhile has a timer of its own.
func (l *Lobby) expire(in *link) {
	l.mu.Lock()
	expired := time.Since(in.since) >= longestWait
	l.mu.Unlock()
	if expired {
		l.drop(in)
	}
}

// drop closes a link if it still waits.
func (l *Lobby) drop(in *link) {
	l.mu.Lock()
	waits := l.waiting[in.id] == in
	if waits {
		l.remove(in)
	}
	l.mu.Unlock()
	if waits {
		_ = in.Close() // nobody uses it. By TLS it may take its time
	}
}

// Close closes the links that wait, and the near ones whose clients may have memory mapped, and lets no more in.
func (l *Lobby) Close() {
	l.mu.Lock()
	l.closed = true
	waited := slices.Collect(maps.Values(l.waiting))
	for _, in := range waited {
		l.remove(in)
	}
	for to := range l.lenders {
		to.cut()
	}
	l.mu.Unlock()
	for _, in := range waited {
		_ = in.Close() // nobody uses it
	}
	l.lending.Wait()
}

// lend has the memory of a stream's batches be lent on a near link; nil if it is none. The lender is the lobby's until its client has nothing
// mapped any more.
func (l *Lobby) lend(in *link) *lender {
	to := newLender(in.Conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if to == nil || l.closed {
		return nil
	}
	if l.lenders == nil {
		l.lenders = map[*lender]struct{}{}
	}
	l.lenders[to] = struct{}{}
	l.lending.Go(func() {
		to.run()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.lenders, to)
	})
	return to
}

// claim returns the link that a call names, nil if it names none that waits, and tells the caller so. It must be called before
// the call's first message.
func (l *Lobby) claim(ctx context.Context, call grpc.ServerStream) (*link, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	named := md.Get(asks)
	if len(named) != 1 {
		return nil, nil
	}
	l.mu.Lock()
	in := l.waiting[named[0]]
	if in != nil {
		l.remove(in)
		in.known = true
	}
	l.mu.Unlock()
	if in == nil {
		return nil, nil
	}
	if err := call.SendHeader(metadata.Pairs(grants, "1")); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// Sender sends the batches of a call: on the link that its caller names, if it does, else by gRPC. To end ctx, which is of the
// call's, interrupts what it sends on a link. It must be made before the call's first message, and Closed. What it adds to the
// batches' memory is the pool's.
func (l *Lobby) Sender(ctx context.Context, out grpc.ServerStream, how Compression, pool *Pool) (*Sender, error) {
	s := &Sender{out: out, how: how, pool: pool}
	var err error
	if s.link, err = l.claim(ctx, out); err != nil {
		return nil, err
	}
	if s.link != nil {
		s.lobby, s.ctx = l, ctx
		if s.lender = l.lend(s.link); s.lender != nil {
			s.link.lender, s.how = s.lender, None // nothing is sent
		}
		s.uninterrupted = context.AfterFunc(ctx, func() { _ = s.link.Close() }) // what it sends fails then
	}
	return s, nil
}
