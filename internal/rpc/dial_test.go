package rpc_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// elsewhere is an address of this machine that is not loopback's, for which proxies count.
func elsewhere(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback's")
	return ""
}

// TestProxiesAreForOtherTraffic: calls and links reach a port straight, and a port that does not answer is told of with
// the proxy.
func TestProxiesAreForOtherTraffic(t *testing.T) {
	const proxy = "http://user:secret@127.0.0.1:9"
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	host := elsewhere(t)
	option, err := rpc.Links(rpc.Config{}, preface, func(c net.Conn) error { return c.Close() })
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, "tcp", net.JoinHostPort(host, "0"), rpc.Config{}, option)
	if err := call(t, address, rpc.Config{}); err != nil {
		t.Errorf("a call: %v", err)
	}
	link, err := dialLink(t.Context(), address, rpc.Config{})
	if err != nil {
		t.Fatalf("a link: %v", err)
	}
	link.Close()

	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	for what, err := range map[string]error{
		"a call": call(t, closed, rpc.Config{}),
		"a link": func() error { _, err := dialLink(t.Context(), closed, rpc.Config{}); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "HTTPS_PROXY=http://user:xxxxx@127.0.0.1:9 is not used") {
			t.Errorf("%s of a port that is closed: %v", what, err)
		}
	}
}

// TestUnusedProxy is told where the environment names one.
func TestUnusedProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy:3128")
	t.Setenv("NO_PROXY", "10.0.0.0/8,.inside")
	for address, named := range map[string]bool{
		"203.0.113.9:7070": true, "master.outside:7070": true, "10.1.2.3:7070": false, "master.inside:7070": false,
		"127.0.0.1:7070": false, "localhost:7070": false, "unix:" + filepath.Join("/run", "x"): false,
	} {
		if note := rpc.UnusedProxy(address); (note != "") != named {
			t.Errorf("%s: %q", address, note)
		}
	}
}
