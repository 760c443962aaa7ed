package cluster_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/master/store"
)

// TestExternalEtcd runs a fleet on an etcd of its own, and lets another master take over what a killed one recorded.
func TestExternalEtcd(t *testing.T) {
	t.Parallel()
	etcd, err := store.Embedded(t.Context(), t.TempDir(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), 20_000, nil)
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--etcd=" + strings.Join(etcd.Endpoints(), ","), "--ticket-key=" +
		filepath.Join(t.TempDir(), "ticket.key")}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), MasterFlags: flags}, 1)
	token := "--token-file=" + c.TokenFile()
	first, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := write(t, "spec.yaml",
		"dataset: {uri: "+filepath.Dir(paths[0])+"/}\nfeatures: [{dense: int_*}]\nbatch_size: 1000\n")
	run(t, 0, nil, "session", "create", spec, "--id=kept", "--master="+first, token)

	second, err := c.StartMaster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// It does not lead yet: it knows who does.
	out, _ := run(t, 0, nil, "session", "list", "--master="+second.Address, token)
	if !strings.Contains(out, "kept") {
		t.Errorf("the second master's answer lacks the session:\n%s", out)
	}
	if err := c.KillMaster(); err != nil {
		t.Fatal(err)
	}
	out, _ = run(t, 0, nil, "read", spec, "--session=kept", "--master="+first+","+second.Address, "--output=json",
		token)
	if !strings.Contains(out, `"rows":20000`) {
		t.Errorf("read: %s", out)
	}
}
