package rpc

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Connect opens a connection to a port of a fleet. All connections are made so, gRPC's and links: the name is looked up
// on this machine, and HTTP proxies are for other traffic, since they break streams, and many know the names of other
// networks alone. An error names the proxy that would have been in between.
func Connect(ctx context.Context, address string) (net.Conn, error) {
	network, to := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, to = "unix", path
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, to)
	if err != nil {
		if note := UnusedProxy(address); note != "" {
			return nil, fmt.Errorf("%w; %s", err, note)
		}
		return nil, err
	}
	return conn, nil
}

// UnusedProxy tells of the HTTP proxy that the environment names for an address; "" if it names none.
func UnusedProxy(address string) string {
	proxy, err := httpproxy.FromEnvironment().ProxyFunc()(&url.URL{Scheme: "https", Host: address})
	switch {
	case strings.HasPrefix(address, "unix:") || err == nil && proxy == nil:
		return ""
	case err != nil:
		return "HTTPS_PROXY is no URL; connections to a fleet do not use it"
	}
	return fmt.Sprintf("HTTPS_PROXY=%s is not used: connections to a fleet are direct", proxy.Redacted())
}
