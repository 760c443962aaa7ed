package client

import (
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// Security says how to reach a fleet that asks for tokens and encrypts. Its fields are the flags of `penstock read` of
// the same names. Files are read anew when they change, so that tokens and certificates are renewed while a job runs.
// The zero value is for a fleet that asks for neither.
type Security struct {
	// TokenFile holds the token that masters are shown, or it is Token. Namespace is the session's, where the token is
	// for all of them.
	TokenFile, Token, Namespace string
	// CA is a PEM file of the authorities that the fleet's certificates come from, and ServerName the name in them, if
	// it is not the address's host. TLS turns encryption on with the system's authorities.
	CA, ServerName string
	TLS            bool
	// Cert and Key are this trainer's own, where the fleet asks for a certificate.
	Cert, Key string
}

// Secure sets Dial and DialLink.
func (c *Config) Secure(s Security) error {
	cfg := rpc.Config{Cert: s.Cert, Key: s.Key, CA: s.CA, ServerName: s.ServerName, TLS: s.TLS, Namespace: s.Namespace}
	cfg.Token = rpc.NewSecret(s.Token)
	if s.TokenFile != "" {
		var err error
		if cfg.Token, err = rpc.ReadSecret(s.TokenFile); err != nil {
			return err
		}
	}
	c.dialBy(cfg)
	return nil
}

func (c *Config) dialBy(cfg rpc.Config) {
	c.Dial = func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, cfg) }
	c.DialLink = rpc.LinkDialer(cfg)
}
