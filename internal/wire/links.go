package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// dialTimeout bounds how long a link may take to open, and nearTimeout a near one. Streams go by gRPC where none
	// can be had.
	dialTimeout, nearTimeout = 5 * time.Second, time.Second
	// keptIdle is how long a link may be idle to be used again: less than a server lets it wait.
	keptIdle = longestWait / 2
	// withoutFor is how long no link is tried after one could not be opened, as where a proxy understands HTTP/2 alone.
	withoutFor = 30 * time.Second
	// grace is how long the rest of a stream's batches may take to come once its status has.
	grace = 5 * time.Second
)

// Links are a client's links to one server. The zero value has none, and lets streams go by gRPC. Close them.
type Links struct {
	ways []*way // best first

	mu     sync.Mutex
	idle   []*link
	closed bool
}

// way is how links are opened.
type way struct {
	dial    func(context.Context) (net.Conn, error)
	timeout time.Duration
	without time.Time // under Links.mu: it is not tried until then
}

// NewLinks makes links to the server at an address: near ones, if it is a process of this user on this machine, or of
// connections that a function opens to it, where it calls LinkServer.Enter for those that begin with Preface. Without
// an address there are no near ones.
func NewLinks(address string, dial func(context.Context) (net.Conn, error)) *Links {
	l := &Links{}
	if address != "" {
		near := func(ctx context.Context) (net.Conn, error) { return dialNear(ctx, address) }
		l.ways = append(l.ways, &way{dial: near, timeout: nearTimeout})
	}
	l.ways = append(l.ways, &way{dial: dial, timeout: dialTimeout})
	return l
}

// take returns an idle link, or a new one; nil if none can be had.
func (l *Links) take(ctx context.Context) *link {
	if l == nil {
		return nil
	}
	for _, w := range l.ways {
		if in := l.waiting(w); in != nil {
			return in
		}
		if in := l.try(ctx, w); in != nil {
			return in
		}
	}
	return nil
}

// waiting takes an idle link that was opened in a way, and that its server has not closed; nil if there is none.
func (l *Links) waiting(w *way) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(time.Now())
	for i, in := range slices.Backward(l.idle) {
		if in.way != w {
			continue
		}
		l.idle = slices.Delete(l.idle, i, i+1)
		if silent(in.Conn) {
			return in
		}
		_ = in.Close() // as the server has
	}
	return nil
}

// try opens a link, unless one that was opened this way a while ago was of no use; nil if it cannot.
func (l *Links) try(ctx context.Context, w *way) *link {
	now := time.Now()
	l.mu.Lock()
	without := now.Before(w.without)
	if !without && !w.without.IsZero() {
		w.without = now.Add(withoutFor) // other streams need not wait for this attempt
	}
	l.mu.Unlock()
	if without {
		return nil
	}
	in, err := w.open(ctx)
	if err != nil && ctx.Err() == nil {
		l.avoid(w)
	}
	return in
}

// prune closes what was idle for too long. l.mu must be held.
func (l *Links) prune(now time.Time) {
	l.idle = slices.DeleteFunc(l.idle, func(in *link) bool {
		if now.Sub(in.since) <= keptIdle {
			return false
		}
		_ = in.Close() // nobody uses it
		return true
	})
}

// avoid has no links be opened in a way for a while.
func (l *Links) avoid(w *way) { l.without(w, time.Now().Add(withoutFor)) }

// without sets until when none is opened in a way; at once if a stream has got one that was.
func (l *Links) without(w *way, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.without = until
}

func (w *way) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	interrupted := context.AfterFunc(ctx, func() { _ = conn.Close() }) // what it waits for fails then
	id := make([]byte, idBytes)
	_, _ = rand.Read(id) // never fails
	answer := make([]byte, 1)
	_, err = conn.Write(append(Preface[:], id...))
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if err == nil && answer[0] != accepted {
		err = fmt.Errorf("wire: a link's server answered %q", answer)
	}
	if !interrupted() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	in := newLink(conn, string(id))
	in.way = w
	return in, nil
}

// put takes back a link whose stream's batches have all come.
func (l *Links) put(in *link) {
	in.since = time.Now()
	l.keep(in)
}

// keep takes back a link that a server has waiting.
func (l *Links) keep(in *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(in.in.rest) > 0 {
		_ = in.Close() // nobody uses it
		return
	}
	l.idle = append(l.idle, in)
}

// Close closes the idle links; those in use are closed when their streams end.
func (l *Links) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, in := range l.idle {
		_ = in.Close() // nobody uses it
	}
	l.idle = nil
}
