package client

import (
	"fmt"
	"sync"

	"google.golang.org/grpc"
)

// pool keeps one connection for each address, shared by all calls and streams to it.
type pool struct {
	dial func(string) (*grpc.ClientConn, error)

	mu    sync.Mutex
	conns map[string]*pooled
}

type pooled struct {
	*grpc.ClientConn
	users int
}

func newPool(dial func(string) (*grpc.ClientConn, error)) *pool {
	return &pool{dial: dial, conns: make(map[string]*pooled)}
}

// get returns the connection to address, and a function that ends its use.
func (p *pool) get(address string) (*grpc.ClientConn, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[address]
	if c == nil {
		conn, err := p.dial(address)
		if err != nil {
			return nil, nil, fmt.Errorf("dial %s: %w", address, err)
		}
		c = &pooled{ClientConn: conn}
		p.conns[address] = c
	}
	c.users++
	// Retries have a backoff of their own; gRPC's would hide a process that came back at its address.
	c.ResetConnectBackoff()
	return c.ClientConn, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		c.users--
	}, nil
}

// prune closes unused connections to addresses that are not in keep.
func (p *pool) prune(keep map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, c := range p.conns {
		if c.users == 0 && !keep[address] {
			_ = c.Close() // fails only if closed before
			delete(p.conns, address)
		}
	}
}

// close closes all connections; the pool may be used again after it.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, c := range p.conns {
		_ = c.Close() // fails only if closed before
		delete(p.conns, address)
	}
}
