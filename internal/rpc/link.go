package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// LinkDialer returns what connects as Dial does, with TLS where cfg has it, for something that is not HTTP/2; see
// Links.
func LinkDialer(cfg Config) func(ctx context.Context, address string) (net.Conn, error) {
	creds, err := clientCredentials(cfg)
	return func(ctx context.Context, address string) (net.Conn, error) {
		if err != nil {
			return nil, err
		}
		return dialLink(ctx, address, creds, cfg.StreamWindow)
	}
}

func dialLink(
	ctx context.Context, address string, creds credentials.TransportCredentials, window int,
) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	raw, err := Connect(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("rpc: dial a link to %s: %w", address, err)
	}
	if tcp, ok := raw.(*net.TCPConn); ok && window > 0 {
		err = tcp.SetReadBuffer(window)
	}
	conn := raw
	if err == nil {
		conn, _, err = creds.ClientHandshake(ctx, address, raw)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rpc: dial a link to %s: %w", address, err), raw.Close())
	}
	return conn, nil
}

// Links hands connections to a server's port that begin with preface, of four bytes, to enter instead of gRPC. enter
// has the time that gRPC gives handshakes, and takes the connection over even if it returns an error. Pass it to
// NewServer.
func Links(cfg Config, preface [4]byte, enter func(net.Conn) error) (grpc.ServerOption, error) {
	creds, err := serverCredentials(cfg)
	if err != nil {
		return nil, err
	}
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	return grpc.Creds(&parting{creds, preface, enter}), nil
}

// parting parts links from gRPC's connections, after the handshake of both.
type parting struct {
	credentials.TransportCredentials
	preface [4]byte
	enter   func(net.Conn) error
}

// ServerHandshake implements credentials.TransportCredentials.
func (p *parting) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := p.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	var first [4]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return nil, nil, err
	}
	if first != p.preface {
		return &begun{conn, first[:]}, info, nil
	}
	bare := conn
	if s, ok := conn.(*stranger); ok {
		bare = s.Conn // which writes several pieces at once
	}
	if err := p.enter(bare); err != nil {
		return nil, nil, err
	}
	if s, ok := raw.(*stranger); ok {
		s.door.forget(s) // whoever has it now has bounds of his own
	}
	return nil, nil, credentials.ErrConnDispatched
}

// Clone implements credentials.TransportCredentials.
func (p *parting) Clone() credentials.TransportCredentials {
	return &parting{p.TransportCredentials.Clone(), p.preface, p.enter}
}

// begun is a connection whose first bytes were read.
type begun struct {
	net.Conn
	first []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}
