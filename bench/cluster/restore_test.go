package cluster_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/dataset"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// row is a row's origin.
type row struct {
	epoch uint32
	file  int32
	row   int64
}

// TestRestore takes checkpoints of a job, lets it read on, and goes back: from each checkpoint, exactly the rows
// behind it come, though workers died and the rows had been handed over once.
func TestRestore(t *testing.T) {
	const rows, epochs = 20_000, 2
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	s := provenanceSpec(t, rows, epochs)

	seen := map[row]int{}
	job := open(t, c, s, nil)
	var states []*pb.State
	var handed []map[row]int // what was handed over up to each state
	for i := range 12 {
		take(t, job, seen)
		if i%4 == 3 {
			states = append(states, job.State())
			copied := make(map[row]int, len(seen))
			for r := range seen {
				copied[r] = 1
			}
			handed = append(handed, copied)
		}
	}
	closeJob(t, job)
	if err := c.Workers()[0].Kill(); err != nil {
		t.Fatal(err)
	}
	for i := len(states) - 1; i >= 0; i-- { // further back each time
		got := handed[i]
		again := open(t, c, s, states[i])
		for take(t, again, got) { //nolint:revive // to the end
		}
		closeJob(t, again)
		if len(got) != rows*epochs {
			t.Errorf("state %d: %d different rows in all, want %d", i, len(got), rows*epochs)
		}
		for r, n := range got {
			if n != 1 {
				t.Fatalf("state %d: %+v was handed over %d times", i, r, n)
			}
		}
	}
}

func provenanceSpec(t *testing.T, rows int, epochs uint32) *pb.Spec {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.Parse([]byte(`{dataset: {uri: ` + filepath.Dir(paths[0]) + `/}, features: [{sparse: cat_0}], batch_size: 700,
		shuffle: true, seed: 3, provenance: true}`))
	if err != nil {
		t.Fatal(err)
	}
	s.Epochs = epochs
	return s
}

// open joins as the only rank. The session lives until closeJob.
func open(t *testing.T, c *cluster.Cluster, s *pb.Spec, restore *pb.State) *client.Session {
	t.Helper()
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := client.Config{
		Masters: []string{master}, Session: "job", Spec: s,
		Dial: func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
	}
	if restore != nil {
		cfg.Restore = []*pb.State{restore}
	}
	job, err := client.Open(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func closeJob(t *testing.T, job *client.Session) {
	t.Helper()
	if err := job.Close(); err != nil {
		t.Fatal(err)
	}
}

// take hands over one batch and counts its rows; it reports whether there was one.
func take(t *testing.T, job *client.Session, seen map[row]int) bool {
	t.Helper()
	b, err := job.Next(t.Context())
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for i, file := range b.Files {
		seen[row{b.Epoch, file, b.RowIDs[i]}]++
	}
	return true
}
