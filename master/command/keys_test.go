package command_test

import (
	"crypto/tls"
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

// TestKeysOpenPorts holds that every process of a fleet trusts the others by what `penstock keys` made, wherever they run,
// and that no fleet trusts another one's.
func TestKeysOpenPorts(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	for _, dir := range []string{ours, theirs} {
		if err := makeKeys(t, dir); err != nil {
			t.Fatal(err)
		}
	}
	port := func(name string) string {
		server, err := rpc.NewServer(rpc.Config{Cert: filepath.Join(ours, name+".crt"), Key: filepath.Join(ours, name+".key")})
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
	first, second, renewed := made(), made(), made("--renew", "--also", "10.0.0.1,fleet.example.org")
	issued := []string{"fleet/tls", "etcd/tls", "etcd/peer", "master/etcd"}
	for path, text := range first {
		if second[path] != text {
			t.Errorf("%s changed without --renew", path)
		}
		if want := slices.Contains(issued, strings.TrimSuffix(strings.TrimSuffix(path, ".crt"), ".key")); (renewed[path] != text) != want {
			t.Errorf("%s: renewed: %v, want %v", path, !want, want)
		}
	}
	if _, err := tls.X509KeyPair([]byte(renewed["fleet/tls.crt"]), []byte(renewed["fleet/tls.key"])); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "authority", "ca.key")); err != nil {
		t.Fatal(err)
	}
	if err := makeKeys(t, dir); err == nil || !strings.Contains(err.Error(), "ca.key") {
		t.Errorf("without an authority's key: %v", err)
	}
}
