package cluster_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
)

// TestOwnersAndQuotas holds by commands alone who may delete a session, what a namespace may take, and that abandoned
// sessions go.
func TestOwnersAndQuotas(t *testing.T) {
	t.Parallel()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), 2000, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(paths[0])
	words := "tokens:\n"
	files := map[string]string{}
	for name, as := range map[string]string{
		"alice": "namespace: vision, roles: [trainer]", "amy": "namespace: vision, roles: [trainer]",
		"viewer": "namespace: vision, roles: [viewer]",
		"boss":   "namespace: vision, roles: [admin]", "eve": "namespace: speech, roles: [admin]",
		"nobody": "namespace: nothing, roles: [trainer]",
	} {
		words += fmt.Sprintf("  - {token: the-token-of-%s-, subject: %s, %s}\n", name, name, as)
		files[name] = write(t, name, "the-token-of-"+name+"-")
	}
	flags := []string{"--tokens=" + write(t, "tokens.yaml", words), "--namespaces=" +
		write(t, "namespaces.yaml", fmt.Sprintf(
			"namespaces:\n  vision: {datasets: ['file://%s/'], max_sessions: 2, max_workers: 3}\n  speech: {datasets: "+
				"['file://%s/']}\n", dir, dir))}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), MasterFlags: flags}, 1)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := write(t, "spec.yaml", fmt.Sprintf("dataset: {uri: %s/}\nfeatures: [{label: label}]\nbatch_size: 100\n",
		dir))
	as := func(name string, args ...string) []string {
		return append(args, "--master="+master, "--token-file="+files[name])
	}
	takes := func(name string, args ...string) string {
		t.Helper()
		out, _ := run(t, 0, nil, as(name, args...)...)
		return out
	}
	refused := func(want, name string, args ...string) {
		t.Helper()
		if _, errs := run(t, 1, nil, as(name, args...)...); !strings.Contains(errs, want) {
			t.Errorf("%s: penstock %s: the error lacks %q: %s", name, strings.Join(args, " "), want, errs)
		}
	}
	takes("alice", "session", "create", spec, "--id=one", "--min-workers=2")
	refused("is not the owner of the session", "amy", "session", "delete", "one")
	refused(`has roles [viewer]`, "viewer", "session", "delete", "one")
	refused("does not exist", "eve", "session", "delete", "one")
	refused("max_workers", "amy", "session", "create", spec, "--id=two", "--min-workers=2")
	takes("amy", "session", "create", spec, "--id=two", "--min-workers=1")
	refused("max_sessions", "alice", "session", "create", spec, "--id=three")
	takes("eve", "session", "create", spec, "--id=three") // another namespace has quotas of its own
	refused("may not read", "nobody", "session", "create", spec, "--id=four")
	// who may not delete may read
	if out := takes("amy", "read", spec, "--session=one", "--output=json"); !strings.Contains(out, `"rows":2000,`) {
		t.Errorf("amy reads: %s", out)
	}
	takes("alice", "session", "delete", "one")
	takes("boss", "session", "delete", "two")
	takes("alice", "session", "create", spec, "--id=three", "--min-workers=3") // both were given back
	if out := takes("viewer", "session", "list"); strings.Count(out, "three") != 1 || strings.Contains(out, "one") ||
		strings.Contains(out, "two") {
		t.Errorf("what is left:\n%s", out)
	}
}

// TestAbandonedSessionsGo holds that a session whose trainers were killed is deleted, and one that is read stays.
func TestAbandonedSessionsGo(t *testing.T) {
	t.Parallel()
	s := provenanceSpec(t, 20_000, 1)
	f := startFleet(t, etcds(t, "127.0.0.1").Endpoints(), 1, "--lease=1s", "--session-ttl=8s")
	abandoned := startTrainer(t, f.dir, f.assign("abandoned"), s)
	seen := map[row]int{}
	abandoned.take(seen)
	abandoned.kill()
	kept := startTrainer(t, f.dir, f.assign("kept"), s)
	clear(seen)
	kept.take(seen)
	list := func() string {
		out, _ := run(t, 0, nil, "session", "list", "--master="+f.first.Address, "--token-file="+f.TokenFile())
		return out
	}
	eventually(t, "the abandoned session is deleted", func() bool { return !strings.Contains(list(), "abandoned") })
	if out := list(); !strings.Contains(out, "kept") {
		t.Errorf("a session whose trainer lives was deleted:\n%s", out)
	}
	if out, _ := run(t, 0, nil, "events", "--master="+f.first.Address,
		"--token-file="+f.TokenFile()); !strings.Contains(out, "expired") {
		t.Errorf("nothing tells of it:\n%s", out)
	}
	(&trained{fleet: f, t: t, id: "kept", spec: s, master: f.dial(f.first.Address), seen: seen}).together(kept)
	exactlyOnce(t, seen, 20_000)
}
