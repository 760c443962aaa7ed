// Package roots says whom connections of storage trust: the system's authorities, and those of a file that a profile or
// a key service names. It keeps no state.
package roots

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS returns a client's configuration that trusts the PEM file's authorities, too; "" names none.
func TLS(caFile string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file %s: no certificates in PEM form", caFile)
	}
	cfg.RootCAs = pool
	return cfg, nil
}
