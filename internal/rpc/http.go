package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/peer"
)

// shutdownTimeout is how long running requests may take to end after they were told to.
const shutdownTimeout = 3 * time.Second

// ServeHTTP serves a port until ctx ends, and then until running requests have ended, whose contexts tell them.
// Strangers pass LimitStrangers. It encrypts if the server has a configuration for that, and closes the listener. Name
// begins its errors.
func ServeHTTP(ctx context.Context, name string, server *http.Server, l net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return peer.NewContext(ctx, &peer.Peer{Addr: c.RemoteAddr()}) // for Welcome
	}
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	door := LimitStrangers(l)
	serve := func() error { return server.Serve(door) }
	if server.TLSConfig != nil {
		serve = func() error { return server.ServeTLS(door, "", "") }
	}
	group.Go(func() error {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("%s: serve %s: %w", name, l.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		soft, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(soft) != nil {
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}

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
