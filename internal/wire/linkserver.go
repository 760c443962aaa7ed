package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const (
	// maxWaiting bounds the links that wait at a server for their first stream, which are nobody's: a stream's caller
	// is authorised, a link's is not. As many may wait for a further one. maxOfCaller bounds those of one caller.
	maxWaiting, maxOfCaller = 256, 64
	// longestWait is how long a link may wait for a stream.
	longestWait = time.Minute
)

// LinkServer is where a server's links wait for the streams that they are for. The zero value is ready for use; Close
// it.
type LinkServer struct {
	mu      sync.Mutex
	waiting map[string]*link
	open    map[*link]struct{} // also those that streams use, or whose clients may have memory mapped
	hearing sync.WaitGroup     // for what these say
	closed  bool
}

// Enter takes over a connection whose client opens a link. It reads the link's name, for which the connection's
// deadline holds; whoever calls it lifts that then.
func (l *LinkServer) Enter(conn net.Conn) error {
	id := make([]byte, idBytes)
	if _, err := io.ReadFull(conn, id); err != nil {
		return errors.Join(err, conn.Close())
	}
	in := &link{Conn: conn, id: string(id), caller: host(conn)}
	if !l.enter(in) {
		return errors.Join(errors.New("wire: the server has closed its links, or has one of this name"), conn.Close())
	}
	if _, err := conn.Write([]byte{accepted}); err != nil {
		l.drop(in)
		return err
	}
	return nil
}

// enter lets a new link wait, and hears what its client says as long as it is open.
func (l *LinkServer) enter(in *link) bool {
	if !l.keep(in) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // meanwhile
		return false
	}
	if l.open == nil {
		l.open = map[*link]struct{}{}
	}
	l.open[in] = struct{}{}
	l.hearing.Go(func() { l.listen(in) })
	return true
}

// listen notices that a link's client leaves: nothing else does while the link waits.
func (l *LinkServer) listen(in *link) {
	err := in.hear()
	l.mu.Lock()
	in.gone = true
	l.mu.Unlock()
	l.drop(in)
	if lender := in.lender.Load(); lender != nil {
		lender.gone(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, in)
}

// keep lets a link wait, if it may. The one that makes room for it is closed.
func (l *LinkServer) keep(in *link) bool {
	l.mu.Lock()
	var longest *link
	defer func() {
		l.mu.Unlock()
		if longest != nil {
			_ = longest.Close() // see drop
		}
	}()
	if l.closed || in.gone || l.waiting[in.id] != nil {
		return false
	}
	if longest = l.excess(in); longest != nil {
		l.remove(longest)
	}
	if l.waiting == nil {
		l.waiting = map[string]*link{}
	}
	l.waiting[in.id] = in
	in.since = time.Now()
	in.expiry = time.AfterFunc(longestWait, func() { l.expire(in) })
	return true
}

// excess is the link that makes room for another one; nil if there is room: of its caller's that which has waited
// longest, or of all. One that waits for its first stream drives out none that has had one. l.mu must be held.
func (l *LinkServer) excess(next *link) *link {
	var longest, own *link
	waiting, owned := 0, 0
	for _, in := range l.waiting {
		if in.known != next.known {
			continue
		}
		waiting++
		longest = longer(longest, in)
		if in.caller == next.caller {
			owned++
			own = longer(own, in)
		}
	}
	switch {
	case owned >= maxOfCaller:
		return own
	case waiting >= maxWaiting:
		return longest
	}
	return nil
}

// longer is which of two links has waited longer; a may be nil.
func longer(a, b *link) *link {
	if a == nil || b.since.Before(a.since) {
		return b
	}
	return a
}

// remove ends a link's wait. l.mu must be held.
func (l *LinkServer) remove(in *link) {
	delete(l.waiting, in.id)
	in.expiry.Stop()
}

// expire closes a link that has waited too long. One that was used meanwhile has a timer of its own.
func (l *LinkServer) expire(in *link) {
	l.mu.Lock()
	expired := time.Since(in.since) >= longestWait
	l.mu.Unlock()
	if expired {
		l.drop(in)
	}
}

// drop closes a link if it still waits.
func (l *LinkServer) drop(in *link) {
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

// Close closes the links that wait and those whose clients may have memory mapped, and lets no more in. It waits for
// the others, which streams use: they close theirs when they end.
func (l *LinkServer) Close() {
	l.mu.Lock()
	l.closed = true
	var closing []*link
	for in := range l.open {
		if l.waiting[in.id] == in || in.lender.Load() != nil {
			closing = append(closing, in)
		}
	}
	for _, in := range l.waiting {
		l.remove(in)
	}
	l.mu.Unlock()
	for _, in := range closing {
		_ = in.Conn.Close() // whatever its client has; by TLS it may take its time
	}
	l.hearing.Wait()
}

// lend has the memory of a stream's batches be lent on a near link; nil if it is none.
func (l *LinkServer) lend(in *link) *lender {
	to := newLender(in.Conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if to == nil || in.gone {
		return nil
	}
	in.lender.Store(to)
	return to
}

// claim returns the link that a caller's call names, nil if it names none that waits, and tells the caller so. It must
// be called before the call's first message.
func (l *LinkServer) claim(ctx context.Context, call grpc.ServerStream, caller string) (*link, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	named := md.Get(asks)
	if len(named) != 1 {
		return nil, nil
	}
	l.mu.Lock()
	in := l.waiting[named[0]]
	if in != nil {
		l.remove(in)
		in.known, in.caller = true, caller+"\x00"+host(in.Conn)
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

// Sender sends the batches of a call: on the link that it names, if it does, else by gRPC. Links of one host that the
// same caller named last are one caller's. To end ctx, which is of the call's, interrupts what it sends on a link. It
// must be made before the call's first message, and Closed. What it adds to the batches' memory is the pool's.
func (l *LinkServer) Sender(
	ctx context.Context, out grpc.ServerStream, caller string, how Compression, pool *Pool,
) (*Sender, error) {
	s := &Sender{out: out, how: how, pool: pool}
	var err error
	if s.link, err = l.claim(ctx, out, caller); err != nil {
		return nil, err
	}
	if s.link != nil {
		s.linkServer, s.ctx = l, ctx
		if s.lender = l.lend(s.link); s.lender != nil {
			s.how = None // nothing is sent
		}
		s.uninterrupted = context.AfterFunc(ctx, func() { _ = s.link.Close() }) // what it sends fails then
	}
	return s, nil
}
