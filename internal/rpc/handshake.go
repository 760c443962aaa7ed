package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
)

// Peer is what a TLS handshake showed of a port.
type Peer struct {
	tls.ConnectionState
	// AsksBack: it asked for a certificate of the caller's. Whether it takes it shows with the first call.
	AsksBack bool
}

// Handshake makes the TLS handshake that a connection of Dial would, and returns what it showed: nil where cfg does not
// use TLS. Where it is refused, the error holds why: a *tls.CertificateVerificationError with the certificate, a
// tls.RecordHeaderError of a port that does not speak TLS, or what Check says of one that does.
func Handshake(ctx context.Context, address string, cfg Config) (*Peer, error) {
	if !cfg.encrypted() {
		return nil, Check(ctx, address, cfg)
	}
	t, err := clientTLS(cfg)
	if err != nil {
		return nil, err
	}
	t.NextProtos = []string{"h2"}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("rpc: address: %w", err)
	}
	t.ServerName = cmp.Or(cfg.ServerName, host)
	peer := &Peer{}
	own := t.Certificates
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		peer.AsksBack = true
		if len(own) > 0 {
			return &own[0], nil
		}
		return &tls.Certificate{}, nil // none
	}
	conn, err := (&tls.Dialer{Config: t}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("rpc: handshake with %s: %w", address, err)
	}
	defer conn.Close()
	peer.ConnectionState = conn.(*tls.Conn).ConnectionState() // as Dialer promises
	return peer, nil
}
