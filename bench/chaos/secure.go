package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
	mastercommand "github.com/penstock-ml/penstock/master/command"
)

// secrets is the folder of a full run's keys, certificates and tokens, as `penstock keys` makes them; "" is none.
// Storage and etcd are reached without.
type secrets string

// fleetServer is the name in the fleet's certificate.
const fleetServer = "penstock"

func makeSecrets(ctx context.Context, dir string) (secrets, error) {
	cmd := mastercommand.Keys()
	cmd.SetArgs([]string{dir})
	cmd.SetOut(io.Discard)
	if err := cmd.ExecuteContext(ctx); err != nil {
		return "", fmt.Errorf("chaos: keys: %w", err)
	}
	return secrets(dir), nil
}

func (s secrets) in(path string) string { return filepath.Join(string(s), path) }

// master is the flags of masters.
func (s secrets) master() []string {
	if s == "" {
		return nil
	}
	return append(s.ports(), "--token-file="+s.in("master/token"), "--worker-token-file="+s.in("fleet/worker.token"))
}

// worker is the flags of workers.
func (s secrets) worker() []string {
	if s == "" {
		return nil
	}
	return append(s.ports(), "--token-file="+s.in("fleet/worker.token"))
}

func (s secrets) ports() []string {
	return []string{
		"--gossip-key-file=" + s.in("fleet/gossip.key"), "--tls-cert=" + s.in("fleet/tls.crt"), "--tls-key=" +
			s.in("fleet/tls.key"),
		"--tls-ca=" + s.in("fleet/ca.crt"), "--tls-server-name=" + fleetServer,
	}
}

// security is how trainers reach the fleet.
func (s secrets) security() client.Security {
	if s == "" {
		return client.Security{}
	}
	return client.Security{TokenFile: s.in("master/token"), CA: s.in("fleet/ca.crt"), ServerName: fleetServer}
}

// metrics gets those of a process's HTTP port.
func (s secrets) metrics(ctx context.Context, name, address string) (*http.Response, error) {
	scheme, client, token := "http", http.DefaultClient, rpc.Secret{}
	if s != "" {
		dial, err := rpc.TLSDialer(rpc.Config{CA: s.in("fleet/ca.crt"), ServerName: fleetServer})
		if err != nil {
			return nil, err
		}
		file := s.in("fleet/worker.token")
		if strings.HasPrefix(name, "master") {
			file = s.in("master/token")
		}
		if token, err = rpc.ReadSecret(file); err != nil {
			return nil, err
		}
		scheme = "https"
		client = &http.Client{Transport: &http.Transport{DialTLSContext: dial, DisableKeepAlives: true}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	if !token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	return client.Do(req)
}
