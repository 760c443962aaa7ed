package wire

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
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
	dial func(context.Context) (net.Conn, error)

	mu      sync.Mutex
	idle    []*link
	without time.Time // until then
	closed  bool
}

// NewLinks makes links of connections that a function opens to a server which calls Lobby.Enter for those that begin with Preface.
func NewLinks(dial func(context.Context) (net.Conn, error)) *Links { return &Links{dial: dial} }

// take returns an idle link, or a new one; nil if none can be had.
func (l *Links) take(ctx context.Context) *link {
	if l == nil || l.dial == nil {
		return nil
	}
	now := time.Now()
	l.mu.Lock()
	var free *link
	for len(l.idle) > 0 && free == nil {
		last := len(l.idle) - 1
		free, l.idle = l.idle[last], l.idle[:last]
		if now.Sub(free.since) > keptIdle {
			_ = free.Close() // nobody uses it
			free = nil
		}
	}
	without := now.Before(l.without)
	l.mu.Unlock()
	if free != nil || without {
		return free
	}
	opened, err := l.open(ctx)
	if err != nil && ctx.Err() == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.without = now.Add(withoutFor)
	}
	return opened
}

func (l *Links) open(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := l.dial(ctx)
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
	return &link{Conn: conn, id: string(id), in: bufio.NewReaderSize(conn, ahead)}, nil
}

// put takes back a link whose stream's batches have all come.
func (l *Links) put(in *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || in.in.Buffered() > 0 {
		_ = in.Close() // nobody uses it
		return
	}
	in.since = time.Now()
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
