package cluster_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// ticketKey is a new key that signs tickets, as PEM.
func ticketKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestTwoTeamsOnOneFleet holds that each of two namespaces reads what is its own on an encrypted fleet, before and
// after all of its keys were exchanged.
func TestTwoTeamsOnOneFleet(t *testing.T) {
	t.Parallel()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), 5000, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(paths[0])
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	alice, eve := write(t, "alice", "the-token-of-alice"), write(t, "eve", "the-token-of-eve")
	tokens := write(t, "tokens.yaml",
		"tokens:\n  - {token: the-token-of-alice, subject: alice, namespace: vision, roles: [trainer]}\n"+
			"  - {token: the-token-of-eve, subject: eve, namespace: speech, roles: [admin]}\n")
	namespaces := write(t, "namespaces.yaml",
		fmt.Sprintf("namespaces:\n  vision: {datasets: ['file://%s/']}\n  speech: {}\n", dir))
	first := ticketKey(t)
	tickets, gossip := write(t, "ticket.key", first), write(t, "gossip.key", "one")
	flags := []string{"--tls-cert=" + cert, "--tls-key=" + key, "--tls-ca=" + authority.CA, "--gossip-key-file=" +
		gossip}
	c := startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(), WorkerFlags: flags,
		MasterFlags: append([]string{"--tokens=" + tokens, "--namespaces=" + namespaces, "--ticket-key=" + tickets},
			flags...),
	}, 2)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := write(t, "spec.yaml",
		fmt.Sprintf("dataset: {uri: %s/}\nfeatures: [{label: label}, {dense: int_*}]\nbatch_size: 1000\n", dir))
	as := func(token string, args ...string) []string {
		return append(args, "--master="+master, "--tls-ca="+authority.CA, "--token-file="+token)
	}
	read := func() {
		t.Helper()
		if out, _ := run(t, 0, nil, as(alice, "read", spec, "--output=json")...); !strings.Contains(out,
			`"rows":5000,`) {
			t.Errorf("read: %s", out)
		}
	}
	refused := func(want string, args []string) {
		t.Helper()
		if _, errs := run(t, 1, nil, args...); !strings.Contains(errs, want) {
			t.Errorf("the error lacks %q:\n%s", want, errs)
		}
	}
	read()
	run(t, 0, nil, as(alice, "session", "create", spec, "--id=hidden")...)
	refused("may not read", as(eve, "session", "create", spec, "--id=mine"))
	refused(`session "hidden" does not exist`, as(eve, "session", "show", "hidden"))
	refused("may do nothing in another one", as(eve, "session", "show", "hidden", "--namespace=vision"))
	refused("not one that this port knows", as(write(t, "forged", "the-token-of-alicf"), "session", "list"))
	for _, step := range []struct{ tickets, gossip string }{
		{ticketKey(t) + first, "two\none\n"},
		{ticketKey(t), "two\n"},
	} {
		for path, text := range map[string]string{tickets: step.tickets, gossip: step.gossip} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		read()
		if _, err := c.StartWorker(t.Context()); err != nil { // it meets those that follow the file
			t.Fatal(err)
		}
		read()
	}
}

// TestWorkersOpenNothing holds that a worker's token serves a fleet, and its own port, and nobody who has it anything
// else.
func TestWorkersOpenNothing(t *testing.T) {
	t.Parallel()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), 5000, nil)
	if err != nil {
		t.Fatal(err)
	}
	workers, gossip := write(t, "worker.token", "the-token-of-workers"), write(t, "gossip.key", "one")
	c := startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(), MasterFlags: []string{"--worker-token-file=" + workers, "--gossip-key-file=" +
			gossip, "--http=127.0.0.1:0"},
		WorkerFlags: []string{"--token-file=" + workers, "--gossip-key-file=" + gossip, "--http=127.0.0.1:0"},
	}, 2)
	at, err := c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := write(t, "spec.yaml",
		fmt.Sprintf("dataset: {uri: %s/}\nfeatures: [{label: label}, {dense: int_*}]\nbatch_size: 1000\n",
			filepath.Dir(paths[0])))
	as := func(token string, args ...string) []string {
		return append(args, "--master="+at.Address, "--token-file="+token)
	}
	if out, _ := run(t, 0, nil, as(c.TokenFile(), "read", spec, "--output=json")...); !strings.Contains(out,
		`"rows":5000,`) {
		t.Errorf("read: %s", out)
	}
	run(t, 0, nil, as(c.TokenFile(), "session", "create", spec, "--id=hidden")...)
	for _, args := range [][]string{
		{"read", spec},
		{"session", "create", spec, "--id=mine"},
		{"session", "list"},
		{"session", "show", "hidden"},
		{"session", "delete", "hidden"},
		{"session", "describe", "hidden"},
		{"explain", "hidden"},
		{"session", "checkpoints", "hidden"},
		{"events"},
		{"top", "--once"},
	} {
		_, errs := run(t, 1, nil, as(workers, args...)...)
		if !strings.Contains(errs, `"workers" has roles [worker]`) || strings.Contains(errs, filepath.Dir(paths[0])) {
			t.Errorf("penstock %v: %s", args, errs)
		}
	}
	worker, err := c.Workers()[0].Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := os.ReadFile(c.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		address, path, token string
		code                 int
	}{
		{worker.HTTP, "/metrics", "the-token-of-workers", http.StatusOK},
		{worker.HTTP, "/metrics", string(fleet), http.StatusUnauthorized},
		{worker.HTTP, "/debug/pprof/cmdline", "", http.StatusUnauthorized},
		{at.HTTP, "/metrics", "the-token-of-workers", http.StatusForbidden},
		{at.HTTP, "/api/v1/observation", "the-token-of-workers", http.StatusForbidden},
		{at.HTTP, "/debug/pprof/cmdline", "the-token-of-workers", http.StatusForbidden},
		{at.HTTP, "/metrics", string(fleet), http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+x.address+x.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+x.token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != x.code { //nolint:errcheck // nothing of it is read
			t.Errorf("%s with token %q: %d, want %d", x.path, x.token, resp.StatusCode, x.code)
		}
	}
}
