package client

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/penstock-ml/penstock/internal/wire"
)

// pool keeps one connection for each address, shared by all calls and streams to it, and links for batches besides.
type pool struct {
	dial     func(string) (*grpc.ClientConn, error)
	dialLink func(context.Context, string) (net.Conn, error) // nil: no links

	mu    sync.Mutex
	conns map[string]*pooled
}

// pooled is a connection and its users. A retired one is not in the pool any more: its last user closes it.
type pooled struct {
	conn    *grpc.ClientConn
	links   *wire.Links // nil: none
	users   int
	retired bool
}

func newPool(
	dial func(string) (*grpc.ClientConn, error), dialLink func(context.Context, string) (net.Conn, error),
) *pool {
	return &pool{dial: dial, dialLink: dialLink, conns: make(map[string]*pooled)}
}

// get returns the connection to address, and a function that ends its use.
func (p *pool) get(address string) (*pooled, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[address]
	// Whoever asks has waited already. gRPC's own backoff, up to two minutes, would hide a process that came back
	// at its address; ResetConnectBackoff races with gRPC itself (1.85).
	if c != nil && c.conn.GetState() == connectivity.TransientFailure {
		p.retire(address, c)
		c = nil
	}
	if c == nil {
		conn, err := p.dial(address)
		if err != nil {
			return nil, nil, fmt.Errorf("dial %s: %w", address, err)
		}
		c = &pooled{conn: conn}
		if p.dialLink != nil {
			c.links = wire.NewLinks(address, func(ctx context.Context) (net.Conn, error) {
				return p.dialLink(ctx, address)
			})
		}
		p.conns[address] = c
	}
	c.users++
	return c, func() { p.done(c) }, nil
}

func (p *pool) done(c *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users == 0 && c.retired {
		c.close()
	}
}

// close closes what nobody uses any more.
func (c *pooled) close() {
	_ = c.conn.Close() // fails only if closed before
	if c.links != nil {
		c.links.Close()
	}
}

// retire takes a connection out of the pool. p.mu must be held.
func (p *pool) retire(address string, c *pooled) {
	delete(p.conns, address)
	c.retired = true
	if c.users == 0 {
		c.close()
	}
}

// prune closes unused connections to addresses that are not in keep.
func (p *pool) prune(keep map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, c := range p.conns {
		if c.users == 0 && !keep[address] {
			p.retire(address, c)
		}
	}
}

// close closes all connections, when nobody uses them any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, c := range p.conns {
		p.retire(address, c)
	}
}
