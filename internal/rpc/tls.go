package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// encrypted reports whether a client with this configuration uses TLS.
func (c Config) encrypted() bool { return c.TLS || c.CA != "" || c.Cert != "" }

func (c Config) check() error {
	if c.ServerName != "" && !c.encrypted() {
		return errors.New(
			"rpc: a server name is asked for, but no TLS; set --tls-ca or --tls, or leave --tls-server-name out")
	}
	if (c.Cert == "") != (c.Key == "") {
		return errors.New("rpc: a certificate and its key go together; set both --tls-cert and --tls-key, or neither")
	}
	return nil
}

func clientCredentials(cfg Config) (credentials.TransportCredentials, error) {
	if !cfg.encrypted() {
		return insecure.NewCredentials(), nil
	}
	files, err := keep(func() (*tls.Config, error) { return clientTLS(cfg) })
	if err != nil {
		return nil, err
	}
	return &renewing{TransportCredentials: credentials.NewTLS(files.get()), files: files}, nil
}

// renewing reads a client's files anew for each handshake, so that renewed authorities and certificates need no
// restart.
type renewing struct {
	credentials.TransportCredentials
	files *kept[*tls.Config]
}

// ClientHandshake implements credentials.TransportCredentials.
func (r *renewing) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := credentials.NewTLS(r.files.get()).ClientHandshake(ctx, authority, conn)
	return c, info, explain(authority, err)
}

// Clone implements credentials.TransportCredentials.
func (r *renewing) Clone() credentials.TransportCredentials {
	return &renewing{TransportCredentials: r.TransportCredentials.Clone(), files: r.files}
}

// explain adds to a failed handshake what to do about it.
func explain(address string, err error) error {
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return fmt.Errorf(
			"the certificate of %s bears another name; --tls-server-name must be one of those that it bears: %w",
			address, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate of %s is over, or not valid yet; renew it, or set this machine's clock: %w",
			address, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of %s is not trusted; --tls-ca must name its authority: %w", address, err)
	case errors.As(err, &plain):
		return fmt.Errorf(
			"%s does not speak TLS; leave out --tls, --tls-ca and --tls-cert, or give that port a certificate: %w",
			address, err)
	}
	return err
}

func clientTLS(cfg Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName}
	var err error
	if t.RootCAs, err = certPool(cfg.CA); err != nil {
		return nil, err
	}
	if cfg.Cert != "" {
		pair, err := loadPair(cfg)
		if err != nil {
			return nil, err
		}
		t.Certificates = []tls.Certificate{*pair}
	}
	return t, nil
}

// serverCredentials are nil for a port in plain text. The files are read anew for each handshake.
func serverCredentials(cfg Config) (credentials.TransportCredentials, error) {
	if cfg.Cert == "" {
		if cfg.encrypted() || cfg.ClientCA != "" {
			return nil, errors.New(
				"rpc: TLS is asked for, but this port has no certificate; set --tls-cert and --tls-key")
		}
		return nil, nil
	}
	files, err := keep(func() (*tls.Config, error) { return serverTLS(cfg) })
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(each(files)), nil
}

// each is the configuration of a server that has a newer one for each handshake.
func each(files *kept[*tls.Config]) *tls.Config {
	t := files.get().Clone()
	t.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.get(), nil }
	return t
}

func serverTLS(cfg Config) (*tls.Config, error) {
	pair, err := loadPair(cfg)
	if err != nil {
		return nil, err
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}, NextProtos: []string{"h2"}}
	if cfg.ClientCA != "" {
		t.ClientAuth = tls.RequireAndVerifyClientCert
		if t.ClientCAs, err = certPool(cfg.ClientCA); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func loadPair(cfg Config) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("rpc: load certificate %s and key %s: %w", cfg.Cert, cfg.Key, err)
	}
	return &pair, nil
}

func certPool(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil // the system's
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("rpc: read CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("rpc: no PEM certificate in " + path)
	}
	return pool, nil
}

// Check finds out why the port at address could never be used with cfg, where that is plain from the first handshake:
// its certificate is not trusted, or one side speaks TLS and the other does not. A port that does not answer is no
// error, since it may later.
func Check(ctx context.Context, address string, cfg Config) error {
	conn, err := Dial(address, cfg) // all that can be said without the network
	if err != nil {
		return err
	}
	_ = conn.Close() // it was never opened
	if cfg.encrypted() {
		_, err := Handshake(ctx, address, cfg)
		if explained := explain(address, err); explained != err { //nolint:errorlint // whether it was explained, not what it is
			return fmt.Errorf("rpc: dial: %w", explained)
		}
		return nil
	}
	t := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // nothing is sent
	if speaks, err := (&tls.Dialer{Config: t}).DialContext(ctx, "tcp", address); err == nil {
		_ = speaks.Close() // it has told what it is
		return fmt.Errorf(
			"rpc: dial: %s speaks TLS; set --tls-ca, or --tls if a public authority signed its certificate", address)
	}
	return nil
}

// isLocal reports whether bytes sent to address stay on this machine.
func isLocal(address string) bool {
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "unix-abstract:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
