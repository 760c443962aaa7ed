package cluster_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// TestBuckets puts blobs to one cache process, and gets them from another one, until the first one is killed. A master
// and a worker of the fleet take no notice.
func TestBuckets(t *testing.T) {
	t.Parallel()
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	tokens := write(t, "tokens.yaml", "tokens:\n"+
		"- {token: the-token-of-team-a, namespace: team-a, subject: a, roles: [trainer]}\n"+
		"- {token: the-token-of-team-b, namespace: team-b, subject: b, roles: [trainer]}\n")
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	master, err := c.MasterProcess().Announced(t.Context())
	must(t, err)
	start := func(name string) (*process.Process, string) {
		t.Helper()
		p, err := c.Run(t.Context(), name, "cache", "--dir="+t.TempDir(), "--bucket=team-a=100MiB", "--listen=127.0.0.1:0",
			"--gossip=127.0.0.1:0", "--join="+master.Gossip, "--tokens="+tokens, "--tls-cert="+cert, "--tls-key="+key,
			"--tls-ca="+authority.CA, "--http=127.0.0.1:0")
		must(t, err)
		a, err := p.Announced(t.Context())
		must(t, err)
		return p, "https://" + a.Address + "/buckets/team-a/"
	}
	first, one := start("cache-1")
	_, two := start("cache-2")

	authorities, err := os.ReadFile(authority.CA)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	trusting := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer trusting.CloseIdleConnections()
	ask := func(method, url, token string, body []byte) (int, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := trusting.RoundTrip(r)
		must(t, err)
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, got
	}
	blobs := make([][]byte, 20)
	name := func(i int) string { return fmt.Sprint("blobs/", i) }
	random := rand.NewChaCha8([32]byte{})
	for i := range blobs {
		blobs[i] = make([]byte, 100_000)
		_, _ = random.Read(blobs[i])
	}
	there := func(url string) (n int) {
		t.Helper()
		for i, blob := range blobs {
			switch code, got := ask(http.MethodGet, url+name(i), "the-token-of-team-a", nil); {
			case code == http.StatusOK && bytes.Equal(got, blob):
				n++
			case code == http.StatusOK:
				t.Fatalf("blob %d has other bytes", i)
			}
		}
		return n
	}
	put := func(url string) (all bool) {
		t.Helper()
		all = true
		for i, blob := range blobs {
			code, _ := ask(http.MethodPut, url+name(i), "the-token-of-team-a", blob)
			all = all && code == http.StatusCreated
		}
		return all
	}
	if !put(one) {
		t.Error("not all blobs could be put")
	}
	eventually(t, "both know each other", func() bool { return put(one) && there(two) == len(blobs) })
	if code, said := ask(http.MethodGet, two+name(0), "the-token-of-team-b", nil); code != http.StatusForbidden {
		t.Errorf("another namespace's token: %d %s", code, said)
	}
	if code, said := ask(http.MethodGet, two+name(0), "an-unknown-token-of-none", nil); code != http.StatusUnauthorized {
		t.Errorf("an unknown token: %d %s", code, said)
	}
	must(t, first.Kill())
	must(t, first.Wait())
	eventually(t, "the other one owns all", func() bool { return put(two) })
	if n := there(two); n != len(blobs) {
		t.Errorf("%d blobs are there", n)
	}
}
