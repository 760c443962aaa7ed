// Package rpc opens and serves Penstock's gRPC ports with one set of rules: TLS where it is configured, a gate that
// sees the headers of each call before its message is read, tuned HTTP/2 windows, keepalives, bounded messages. It
// finds the leader for commands that make one call. Master, worker and client all use it. A Config is read-only once in
// use and may be shared.
package rpc

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxMessage bounds a received message; a record batch has a few megabytes.
	maxMessage = 256 << 20
	// MaxRequest bounds what a master is sent: a spec, the report of a worker, or the states of all ranks that a
	// trainer restores from.
	MaxRequest = 16 << 20
	// maxCalls bounds the calls of one connection that are under way; those beyond wait at the caller. A trainer has as
	// many as streams.
	maxCalls = 256
	// maxHeaders bounds the headers of a call, with its token.
	maxHeaders = 64 << 10
	// connectionWindow lets a few streams of one connection be in flight on a fast network.
	connectionWindow = 16 << 20
	// A client pings a silent server no more often than keepaliveTime, gRPC's minimum; a server bears twice as many.
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
	connectTimeout   = 5 * time.Second
	// handshakeTimeout is how long a stranger may say nothing. A server that stops waits for handshakes.
	handshakeTimeout = 2 * connectTimeout
	maxBackoff       = 3 * time.Second
)

// Config says how to authenticate and encrypt. The zero value is plain text, for loopback and tests.
type Config struct {
	// Cert and Key are PEM files: a server's certificate, or a client's where the server asks for one.
	Cert, Key string
	// CA is a PEM file of the authorities that a client trusts; "" trusts the system's, if TLS is on.
	CA string
	// ClientCA is a PEM file of authorities; a server asks each caller for a certificate of theirs. "" asks for none.
	ClientCA string
	// ServerName is the name that the certificates of the ports called must bear; "" is the address's host. A fleet
	// whose processes come and go at changing addresses has one certificate, with one name, for all.
	ServerName string
	// TLS turns encryption on for a client that has neither CA nor certificate.
	TLS bool
	// Token is what a client shows; its zero value shows none.
	Token Secret
	// Namespace is what a client's calls are about, if its token is for several; "" is the token's own.
	Namespace string
	// StreamWindow bounds the bytes that a server may send ahead on one stream; 0 means 4 MiB, and what the kernel
	// thinks right for a link.
	StreamWindow int
	// MaxMessage bounds what is received in one message, in bytes; 0 means 256 MiB.
	MaxMessage int
}

func (c Config) maxMessage() int { return cmp.Or(c.MaxMessage, maxMessage) }

// Dial prepares a connection to address ("host:port"); it connects with the first call. Close it when done.
func Dial(address string, cfg Config) (*grpc.ClientConn, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	creds, err := clientCredentials(cfg)
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
		experimental.WithBufferPool(&frames{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.maxMessage()), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		// Without the default's two minutes, which would hide a process that came back at its address.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: maxBackoff,
			},
			MinConnectTimeout: connectTimeout,
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithContextDialer(Connect),
	}
	if !cfg.Token.IsZero() {
		if !cfg.encrypted() && !isLocal(address) {
			return nil, fmt.Errorf(
				"rpc: dial %s: a token is sent over TLS only, except on this machine; set --tls-ca or --tls", address)
		}
	}
	if !cfg.Token.IsZero() || cfg.Namespace != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(caller{cfg.Token, cfg.Namespace}))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, opts...)
	if err != nil {
		return nil, fmt.Errorf("rpc: dial %s: %w", address, err)
	}
	return conn, nil
}

// Anonymous is how to reach ports that nobody's token is for: a worker's, which signed tickets open.
func (c Config) Anonymous() Config {
	c.Token, c.Namespace = Secret{}, ""
	return c
}

// NewServer returns a gRPC server that follows cfg, and options besides, such as Guarded. The caller registers
// services, and serves on a LimitStrangers.
func NewServer(cfg Config, also ...grpc.ServerOption) (*grpc.Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	creds, err := serverCredentials(cfg)
	if err != nil {
		return nil, err
	}
	opts := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cfg.maxMessage()),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.WriteBufferSize(256 << 10),
		grpc.WaitForHandlers(true), // so that Stop leaves no goroutine behind
		grpc.ChainUnaryInterceptor(unary),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ChainStreamInterceptor(streaming),
		grpc.RPCDecompressor(uncompressed{}), //nolint:staticcheck // a compressor that others have registered for their clients cannot be taken away
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             keepaliveTime / 2,
			PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * keepaliveTime, Timeout: keepaliveTimeout}),
	}
	if creds != nil {
		opts = append(opts, grpc.Creds(creds))
	}
	return grpc.NewServer(append(opts, also...)...), nil
}
