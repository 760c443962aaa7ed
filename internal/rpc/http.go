package rpc

import "crypto/tls"

// HTTPTLS is how an HTTP port of this process encrypts: with the certificate of the gRPC port, read anew for each handshake. It is nil
// where there is none. Callers need no certificate of their own, since kubelets have none to show: what is not public asks for a token.
func HTTPTLS(cfg Config) (*tls.Config, error) {
	if err := cfg.check(); err != nil || cfg.Cert == "" {
		return nil, err
	}
	files, err := keep(func() (*tls.Config, error) {
		pair, err := loadPair(cfg)
		if err != nil {
			return nil, err
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}, NextProtos: []string{"h2", "http/1.1"}}, nil
	})
	if err != nil {
		return nil, err
	}
	return each(files), nil
}
