package cluster_test

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master/store"
)

// denseBits are the values of a row's dense features, as they are in memory.
type denseBits map[row][]uint32

// take hands over a batch and takes its rows' values; each row may come once. It reports false at the end.
func (v denseBits) take(t *testing.T, job *client.Session) bool {
	t.Helper()
	b := next(t, job)
	if b == nil {
		return false
	}
	defer b.Release()
	width := len(b.Dense) / b.Rows
	for i, file := range b.Files {
		at := row{b.Epoch, file, b.RowIDs[i]}
		if v[at] != nil {
			t.Fatalf("%+v comes twice", at)
		}
		for _, x := range b.Dense[i*width : (i+1)*width] {
			v[at] = append(v[at], math.Float32bits(x))
		}
	}
	return true
}

func (v denseBits) equal(w denseBits) bool {
	for at, x := range v {
		if !slices.Equal(x, w[at]) {
			return false
		}
	}
	return len(v) == len(w)
}

// TestRollingUpgrade upgrades a fleet below a running job to a release that changes an op: first the workers, one by
// one, and then the master. The job's rows stay the same bit for bit, and sessions of both versions are served at once.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	before, after := ownMain(t, 1), ownMain(t, 2)
	etcd, err := store.Embedded(t.Context(), t.TempDir(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	dir := t.TempDir()
	masterFlags := []string{"--etcd=" + etcd.Endpoints()[0], "--ticket-key=" + filepath.Join(t.TempDir(), "ticket.key")}
	c := startCluster(t, cluster.Config{Binary: before, Dir: dir, MasterFlags: masterFlags}, 2)
	first, err := c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	join := []string{first.Gossip} // whose master will be stopped
	for _, w := range c.Workers() {
		a, err := w.Announced(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		join = append(join, a.Gossip)
	}
	launch := func(name string, args ...string) {
		t.Helper()
		p, err := process.Start(process.Config{
			Name: name, Binary: after, Log: filepath.Join(dir, name+".log"),
			Args: append([]string{
				args[0], "--name=" + name, "--token-file=" +
					c.TokenFile(), "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--join=" + strings.Join(join, ","),
			}, args[1:]...),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		a, err := p.Announced(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		join = append(join, a.Gossip)
	}
	masters := []string{first.Address, freeAddress(t)}
	s := provenanceSpec(t, rows, 1)
	s.Features = []*pb.Feature{{Layout: pb.Layout_DENSE, Name: []string{"int_*"}}}
	s.Transforms = []*pb.Transform{
		{Op: "fill_null", In: []string{"int_*"}, Params: map[string]*pb.Value{"value": {Kind: &pb.Value_Int{Int: 0}}}},
		{Op: "log1p", In: []string{"int_*"}},
		{Op: "grow", In: []string{"int_*"}},
	}
	open := func(id string) *client.Session {
		t.Helper()
		job, err := client.Open(context.WithoutCancel(t.Context()), client.Config{
			Masters: masters, Session: id, Spec: s, Budget: 1 << 20,
			Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
			DialLink: rpc.LinkDialer(c.RPC()),
		})
		if err != nil {
			t.Fatal(err)
		}
		return job
	}
	all := func(job *client.Session, v denseBits) denseBits {
		t.Helper()
		for v.take(t, job) { //nolint:revive // to the end
		}
		closeJob(t, job)
		return v
	}
	want := all(open("before"), denseBits{})

	job, got := open("job"), denseBits{}
	got.take(t, job)
	launch("next-master", append([]string{"master", "--listen=" + masters[1]}, masterFlags...)...)
	if err := c.MasterProcess().Stop(); err != nil {
		t.Fatal(err)
	}
	early := open("early")
	if _, err := early.Next(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "unknown op grow of version 2: this worker has version 1") {
		t.Errorf("a session whose op no worker has in its version: %v", err)
	}
	_ = early.Close() // it tells the same again

	changed := denseBits{}
	for i, old := range c.Workers() {
		launch([]string{"next-worker-1", "next-worker-2"}[i], "worker")
		got.take(t, job)
		if i == 0 { // some workers are of the old release, some of the new one
			all(open("changed"), changed)
		}
		if err := old.Stop(); err != nil {
			t.Fatal(err)
		}
		got.take(t, job)
	}
	if !all(job, got).equal(want) || len(want) != rows {
		t.Errorf("%d rows below the upgrade, %d before it, and they should be the same", len(got), len(want))
	}
	if !changed.equal(scaled(want)) {
		t.Errorf("%d rows of the new version, %d of the old, and they should be half as much again",
			len(changed), len(want))
	}
}

// scaled is what version 2 of the op makes of what version 1 did: doubling loses nothing, so that it can be undone.
func scaled(v denseBits) denseBits {
	out := denseBits{}
	for at, values := range v {
		for _, x := range values {
			out[at] = append(out[at], math.Float32bits(3*(math.Float32frombits(x)/2)))
		}
	}
	return out
}
