package rpc

import (
	"context"
	"crypto/tls"
	"net"
)

// HTTPTLS is how an HTTP port of this process encrypts: with the certificate of the gRPC port, read anew for each
// handshake. It is nil where there is none. Callers need no certificate of their own, since kubelets have none to show:
// what is not public asks for a token.
func HTTPTLS(cfg Config) (*tls.Config, error) {
	if err := cfg.check(); err != nil || cfg.Cert == "" {
		return nil, err
	}
	files, err := keep(func() (*tls.Config, error) {
		pair, err := loadPair(cfg)
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair},
			NextProtos: []string{"h2", "http/1.1"},
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return each(files), nil
}

// TLSDialer returns how a client of others' ports, as of HTTPS, connects to them: the files of cfg are read anew for
// each handshake.
func TLSDialer(cfg Config) (func(ctx context.Context, network, address string) (net.Conn, error), error) {
	files, err := keep(func() (*tls.Config, error) { return clientTLS(cfg) })
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: files.get()}).DialContext(ctx, network, address)
	}, nil
}
