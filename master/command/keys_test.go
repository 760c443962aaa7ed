package command_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/master/command"
)

func makeKeys(t *testing.T, args ...string) error {
	t.Helper()
	cmd := command.Keys()
	cmd.SetArgs(args)
	cmd.SetOut(t.Output())
	return cmd.ExecuteContext(t.Context())
}

// TestKeysOpenPorts holds that every process of a fleet trusts the others by what `penstock keys` made, wherever they
// run, and that no fleet trusts another one's.
func TestKeysOpenPorts(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, theirs} {
		if err := makeKeys(t, dir); err != nil {
			t.Fatal(err)
		}
	}
	port := func(name string) string {
		server, err := rpc.NewServer(rpc.Config{
			Cert: filepath.Join(ours, name+".crt"),
			Key:  filepath.Join(ours, name+".key"),
		})
		if err != nil {
			t.Fatal(err)
		}
		return rpctest.Serve(t, server)
	}
	fleet, etcd := port("fleet/tls"), port("etcd/tls")
	for _, c := range []struct {
		port, name, ca string
		trusted        bool
	}{
		{fleet, "", filepath.Join(ours, "fleet/ca.crt"), true}, // 127.0.0.1
		{fleet, "penstock", filepath.Join(ours, "fleet/ca.crt"), true},
		{fleet, "penstock-master.penstock.svc", filepath.Join(ours, "fleet/ca.crt"), true},
		{fleet, "penstock-etcd", filepath.Join(ours, "fleet/ca.crt"), false},
		{fleet, "penstock", filepath.Join(theirs, "fleet/ca.crt"), false},
		{fleet, "penstock", filepath.Join(ours, "etcd/ca.crt"), false},
		{etcd, "penstock-etcd-2.penstock-etcd.penstock.svc", filepath.Join(ours, "master/etcd-ca.crt"), true},
		{etcd, "penstock-etcd", filepath.Join(ours, "fleet/ca.crt"), false},
	} {
		_, err := rpc.Handshake(t.Context(), c.port, rpc.Config{CA: c.ca, ServerName: c.name})
		if (err == nil) != c.trusted {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestKeysStay holds that a second run keeps what is there, and --renew all but certificates.
func TestKeysStay(t *testing.T) {
	dir := t.TempDir()
	made := func(args ...string) map[string]string {
		t.Helper()
		if err := makeKeys(t, append(args, dir)...); err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(filepath.Join(dir, path))
			texts[path] = string(text)
			if info, e := d.Info(); e != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: others can read it: %v, %v", path, info, e)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	first, second, renewed, again := made(), made(), made("--renew", "--also", "10.0.0.1,fleet.example.org"),
		made("--renew")
	issued := []string{"fleet/tls", "etcd/tls", "etcd/peer", "master/etcd"}
	for path, text := range first {
		if second[path] != text {
			t.Errorf("%s changed without --renew", path)
		}
		if want := slices.Contains(issued, strings.TrimSuffix(strings.TrimSuffix(path, ".crt"),
			".key")); (renewed[path] != text) != want {
			t.Errorf("%s: renewed: %v, want %v", path, !want, want)
		}
	}
	if _, err := tls.X509KeyPair([]byte(renewed["fleet/tls.crt"]), []byte(renewed["fleet/tls.key"])); err != nil {
		t.Error(err)
	}
	block, _ := pem.Decode([]byte(again["fleet/tls.crt"]))
	if cert, err := x509.ParseCertificate(block.Bytes); err != nil || cert.VerifyHostname("fleet.example.org") != nil ||
		cert.VerifyHostname("10.0.0.1") != nil {
		t.Errorf("renewed once more, the certificate has lost names: %v, %v", err, cert.DNSNames)
	}
	if err := os.Remove(filepath.Join(dir, "authority", "ca.key")); err != nil {
		t.Fatal(err)
	}
	if err := makeKeys(t, dir); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("without an authority's key: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "authority", "ca.crt")); err != nil {
		t.Fatal(err)
	}
	if err := makeKeys(t, "--renew", dir); err == nil || !strings.Contains(err.Error(), "bring them back") {
		t.Errorf("without the authority that all processes trust: %v", err)
	}
}

// TestRotate takes the steps of a rotation: what is taken out is never shown at that moment, and what is shown is known
// to all before.
func TestRotate(t *testing.T) {
	dir := t.TempDir()
	several := map[string]string{
		"master/token": "\n", "fleet/worker.token": "\n", "fleet/gossip.key": "\n",
		"master/ticket.key": "-----END PRIVATE KEY-----\n", "fleet/ca.crt": "-----END CERTIFICATE-----\n",
	}
	held := func() map[string][]string {
		t.Helper()
		out := map[string][]string{}
		for path, end := range several {
			text, err := os.ReadFile(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			for one := range strings.SplitAfterSeq(string(text), end) {
				if one = strings.TrimSpace(one); one != "" {
					out[path] = append(out[path], one)
				}
			}
		}
		return out
	}
	step := func(name string) {
		t.Helper()
		if err := makeKeys(t, dir, "--rotate", name); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(name, want string) {
		t.Helper()
		if err := makeKeys(t, dir, "--rotate", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--rotate %s: %v, want %q", name, err, want)
		}
	}
	trusted := func() {
		t.Helper()
		server, err := rpc.NewServer(rpc.Config{
			Cert: filepath.Join(dir, "fleet/tls.crt"),
			Key:  filepath.Join(dir, "fleet/tls.key"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rpc.Handshake(t.Context(), rpctest.Serve(t, server),
			rpc.Config{CA: filepath.Join(dir, "fleet/ca.crt"), ServerName: "penstock"}); err != nil {
			t.Error(err)
		}
	}
	if err := makeKeys(t, dir); err != nil {
		t.Fatal(err)
	}
	refused("use", "begin with --rotate add")
	refused("drop", "nothing to drop")
	refused("swap", "want add, use or drop")
	first := held()
	step("add")
	added := held()
	step("add") // as after one that was interrupted
	for path, all := range held() {
		if want := added[path]; !slices.Equal(all, want) || len(all) != 2 || all[0] != first[path][0] {
			t.Errorf("%s after add: %q, want %q", path, all, want)
		}
	}
	refused("drop", "--rotate use comes first")
	trusted()
	step("use")
	for path, all := range held() {
		swapped := []string{added[path][1], added[path][0]}
		if path == "fleet/ca.crt" { // in any order
			slices.Sort(all)
			slices.Sort(swapped)
		}
		if !slices.Equal(all, swapped) {
			t.Errorf("%s after use: %q, want %q", path, all, swapped)
		}
	}
	refused("add", "end the last rotation with --rotate drop")
	trusted()
	step("drop")
	for path, all := range held() {
		if want := added[path][1:]; !slices.Equal(all, want) {
			t.Errorf("%s after drop: %q, want %q", path, all, want)
		}
	}
	trusted()
	step("add") // and so on
}
