package bucket

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// TestTLS: a node passes on by TLS, too, and clients may use either version of HTTP.
func TestTLS(t *testing.T) {
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	encryption, err := rpc.HTTPTLS(rpc.Config{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(authority.CA)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	client := func(second bool) *http.Transport {
		c := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: second}
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	owner, other := listen(t), listen(t)
	encrypted := func(cfg *Config) { cfg.TLS, cfg.Peers = encryption, client(true) }
	run(t, owner, nil, encrypted)
	run(t, other, func(cache.Key) (string, bool) { return owner.Addr().String(), false }, encrypted)
	blob := strings.Repeat("blob", 50_000)
	for _, second := range []bool{false, true} {
		via := &http.Client{Transport: client(second)}
		for _, method := range []string{"PUT", "GET"} {
			for _, l := range []string{owner.Addr().String(), other.Addr().String()} {
				req, err := http.NewRequestWithContext(t.Context(), method, "https://"+l+"/buckets/a/x", strings.NewReader(blob))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer of-a")
				resp, err := via.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.ProtoMajor != map[bool]int{false: 1, true: 2}[second] || resp.StatusCode/100 != 2 ||
					method == "GET" && string(got) != blob {
					t.Errorf("%s %s by %s: %s, %d bytes, %v", method, l, resp.Proto, resp.Status, len(got), err)
				}
			}
		}
	}
}
