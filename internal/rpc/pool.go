package rpc

import (
	"errors"
	"slices"
	"sync"

	"google.golang.org/grpc"
)

// Pool keeps one connection for each address. Its methods may be called by many goroutines at once.
type Pool struct {
	cfg   Config
	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
}

// NewPool returns an empty pool; Close it.
func NewPool(cfg Config) *Pool { return &Pool{cfg: cfg, conns: map[string]*grpc.ClientConn{}} }

// Get returns the connection to address, which the pool owns.
func (p *Pool) Get(address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn, ok := p.conns[address]; ok {
		return conn, nil
	}
	conn, err := Dial(address, p.cfg)
	if err != nil {
		return nil, err
	}
	p.conns[address] = conn
	return conn, nil
}

// Keep closes the connections to all other addresses.
func (p *Pool) Keep(addresses []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for address, conn := range p.conns {
		if !slices.Contains(addresses, address) {
			errs = append(errs, conn.Close())
			delete(p.conns, address)
		}
	}
	return errors.Join(errs...)
}

// Close closes all connections.
func (p *Pool) Close() error { return p.Keep(nil) }
