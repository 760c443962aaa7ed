// Package rpc opens and serves Penstock's gRPC ports with one set of rules: TLS and a bearer token where they
// are configured, tuned HTTP/2 windows, keepalives, bounded messages. Master, worker and client all use it.
// A Config is read-only once in use and may be shared.
package rpc

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// maxMessage bounds a received message; a record batch is about a megabyte.
	maxMessage = 256 << 20
	// connectionWindow lets a few streams of one connection be in flight on a fast network.
	connectionWindow = 16 << 20
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// Config says how to authenticate and encrypt. The zero value is plain text, for loopback and tests.
type Config struct {
	// Cert and Key are PEM files: a server's certificate, or a client's where the server asks for one.
	Cert, Key string
	// CA is a PEM file of the authorities to trust; "" trusts the system's, if TLS is on.
	CA string
	// TLS turns encryption on for a client that has neither CA nor certificate.
	TLS bool
	// Token is the shared secret of callers and servers. "" asks for none.
	Token Secret
	// StreamWindow bounds the bytes that a server may send ahead on one stream; 0 means 4 MiB.
	StreamWindow int
}

// Secret is text that never prints.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders, slog's among them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ReadSecret reads a secret from a file, without the white space around it.
func ReadSecret(path string) (Secret, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("rpc: read secret: %w", err)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", fmt.Errorf("rpc: secret file %s is empty", path)
	}
	return Secret(s), nil
}

// Dial prepares a connection to address ("host:port"); it connects with the first call. Close it when done.
func Dial(address string, cfg Config) (*grpc.ClientConn, error) {
	creds, encrypted, err := clientCredentials(cfg)
	if err != nil {
		return nil, err
	}
	window := int32(cfg.StreamWindow)
	if window == 0 {
		window = 4 << 20
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithReadBufferSize(64 << 10),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDisableServiceConfig(),
	}
	if cfg.Token != "" {
		if !encrypted && !isLoopback(address) {
			return nil, fmt.Errorf("rpc: dial %s: a token is sent over TLS only, except on loopback; set a CA or turn TLS on", address)
		}
		opts = append(opts, grpc.WithPerRPCCredentials(bearer{cfg.Token}))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, opts...)
	if err != nil {
		return nil, fmt.Errorf("rpc: dial %s: %w", address, err)
	}
	return conn, nil
}

// NewServer returns a gRPC server that follows cfg. The caller registers services and serves.
func NewServer(cfg Config) (*grpc.Server, error) {
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.WriteBufferSize(256 << 10),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * keepaliveTime, Timeout: keepaliveTimeout}),
	}
	if cfg.Cert != "" {
		creds, err := serverCredentials(cfg)
		if err != nil {
			return nil, err
		}
		opts = append(opts, grpc.Creds(creds))
	}
	if cfg.Token != "" {
		opts = append(opts,
			grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				if err := authorise(ctx, cfg.Token); err != nil {
					return nil, err
				}
				return next(ctx, req)
			}),
			grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				if err := authorise(ss.Context(), cfg.Token); err != nil {
					return err
				}
				return next(srv, ss)
			}))
	}
	return grpc.NewServer(opts...), nil
}

func authorise(ctx context.Context, token Secret) error {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("authorization") {
		if subtle.ConstantTimeCompare([]byte(v), []byte("Bearer "+string(token))) == 1 {
			return nil
		}
	}
	return status.Error(codes.Unauthenticated, "the call bears no token that this port accepts; set --token-file or PENSTOCK_TOKEN_FILE")
}

type bearer struct{ token Secret }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b.token)}, nil
}

// RequireTransportSecurity is false since Dial has already refused a token in clear text beyond loopback.
func (bearer) RequireTransportSecurity() bool { return false }

func clientCredentials(cfg Config) (creds credentials.TransportCredentials, encrypted bool, err error) {
	if !cfg.TLS && cfg.CA == "" && cfg.Cert == "" {
		return insecure.NewCredentials(), false, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.RootCAs, err = certPool(cfg.CA); err != nil {
		return nil, false, err
	}
	if cfg.Cert != "" && cfg.Key != "" {
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return loadPair(cfg) }
	}
	return credentials.NewTLS(t), true, nil
}

func serverCredentials(cfg Config) (credentials.TransportCredentials, error) {
	if _, err := loadPair(cfg); err != nil {
		return nil, err
	}
	// The files are read anew for each handshake, so that renewed certificates need no restart.
	return credentials.NewTLS(&tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return loadPair(cfg) },
	}), nil
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

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
