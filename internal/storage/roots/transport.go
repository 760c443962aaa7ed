package roots

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Transport returns an HTTP transport for many reads at once, which trusts the PEM file's authorities, too. The file
// may be replaced.
func Transport(caFile string) (*http.Transport, error) {
	trusting, err := TLS(caFile)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		MaxIdleConnsPerHost:   256, // eight streams that read at their most keep their connections
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		ReadBufferSize:        64 << 10,
		DisableCompression:    true, // objects are wanted as they are
		TLSClientConfig:       trusting,
	}
	if caFile != "" {
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			newest, err := TLS(caFile)
			if err != nil {
				newest = trusting.Clone() // while it is being replaced
			}
			return (&tls.Dialer{NetDialer: dialer, Config: newest}).DialContext(ctx, network, address)
		}
	}
	return t, nil
}
