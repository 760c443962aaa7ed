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
	// dialTimeout bounds how long a link may take to open. Streams go by gRPC where none can be had.
	dialTimeout = 5 * time.Second
	// keptIdle is how long a link may be idle to be used again: less than a server lets it wait.
	keptIdle = longestWait / 2
	// withoutFor is how long no link is tried after one could not be opened, as where a proxy understands HTTP/2 alone.
	withoutFor = 30 * time.Second
	// grace is how long the rest of a stream's batches may take to come once its status has.
	grace = 5 * time.Second
)

// Links are a client's links to one server. The zero value has none, and lets streams go by gRPC. Close them.
type Links struct {
	dial    func(context.Context) (net.Conn, error)
	address string // at which there may be near links; "" if not

	mu      sync.Mutex
	idle    []*link
	without time.Time // until then
	closed  bool
}

// NewLinks makes links to the server at an address: near ones, if it is a process of this user on this machine, or of connections that
// a function opens to it, where it calls Lobby.Enter for those that begin with Preface.
func NewLinks(address string, dial func(context.Context) (net.Conn, error)) *Links {
	return &Links{dial: dial, address: address}
}

// take returns an idle link, or a new one; nil if none can be had.
func (l *Links) take(ctx context.Context) *link {
	if l == nil || l.dial == nil {
		return nil
	}
	now := time.Now()
	l.mu.Lock()
	l.prune(now)
	if last := len(l.idle) - 1; last >= 0 {
		defer l.mu.Unlock()
		free := l.idle[last]
		l.idle = l.idle[:last]
		return free
	}
	without := now.Before(l.without)
	if !without && !l.without.IsZero() {
		l.without = now.Add(withoutFor) // other streams need not wait for this attempt
	}
	l.mu.Unlock()
	if without {
		return nil
	}
	opened, err := l.open(ctx)
	switch {
	case err == nil:
		l.try(time.Time{})
	case ctx.Err() == nil:
		l.try(time.Now().Add(withoutFor))
	}
	return opened
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

// avoid has no links be opened for a while the way that one was, which leads elsewhere than calls do.
func (l *Links) avoid(in *link) {
	if in.loans == nil {
		l.try(time.Now().Add(withoutFor))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = ""
}

// connect opens a connection.
func (l *Links) connect(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	address := l.address
	l.mu.Unlock()
	if address != "" {
		if conn, err := dialNear(ctx, address); err == nil {
			return conn, nil
		}
	}
	return l.dial(ctx)
}

// try sets when links may be opened again.
func (l *Links) try(from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.without = from
}

func (l *Links) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := l.connect(ctx)
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
	return newLink(conn, string(id)), nil
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
