package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// row is a row's origin.
type row struct {
	epoch uint32
	file  int32
	row   int64
}

// TestRestore takes checkpoints of a job, lets it read on, and goes back: from each checkpoint, exactly the rows
// after it come, though workers died and the rows had been handed over once.
func TestRestore(t *testing.T) {
	t.Parallel()
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

// TestRestoreElsewhere moves a job to a fleet that knows nothing of it, as another session with another number of
// ranks.
func TestRestoreElsewhere(t *testing.T) {
	t.Parallel()
	const rows, epochs = 20_000, 2
	s := provenanceSpec(t, rows, epochs)
	seen := &tally{rows: map[row]int{}}
	before := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	jobs := openRanks(t, before, "before", s, make([][]*pb.State, 2))
	readTogether(t, jobs, seen, 10)
	var states []*pb.State
	for _, job := range jobs {
		states = append(states, job.State())
	}
	for _, job := range jobs { // what they hold comes back, in vain
		closeJob(t, job)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(seen.rows); n == 0 || n >= rows {
		t.Fatalf("%d rows were handed over before; want some of the first epoch", n)
	}

	after := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	jobs = openRanks(t, after, "after", s, [][]*pb.State{{states[1]}, {}, {states[0]}})
	readTogether(t, jobs, seen, 0)
	for _, job := range jobs {
		closeJob(t, job)
	}
	if len(seen.rows) != rows*epochs {
		t.Errorf("%d different rows in all, want %d", len(seen.rows), rows*epochs)
	}
	for r, n := range seen.rows {
		if n != 1 {
			t.Fatalf("%+v was handed over %d times", r, n)
		}
	}
}

// TestRestoreByOtherNumbersOfRanks also leaves a state out, and has a rank die while it waits for the others.
func TestRestoreByOtherNumbersOfRanks(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	s := provenanceSpec(t, rows, 1)
	for _, world := range [][2]int{{1, 4}, {3, 5}} {
		seen := &tally{rows: map[row]int{}}
		before, after := fmt.Sprint("of ", world[0]), fmt.Sprint("by ", world[1])
		jobs := openRanks(t, c, before, s, make([][]*pb.State, world[0]))
		readTogether(t, jobs, seen, 10)
		eventually(t, "the ranks know of each other", func() bool {
			return !slices.ContainsFunc(jobs,
				func(job *client.Session) bool { return len(job.State().GetMembers()) < world[0] })
		})
		states := make([][]*pb.State, world[1])
		for i := range states {
			states[i] = []*pb.State{}
		}
		for i, job := range jobs {
			states[world[1]-1-i] = append(states[world[1]-1-i], job.State())
		}
		if world[0] > 1 {
			some := [][]*pb.State{{states[world[1]-1][0], states[world[1]-3][0]}}
			if _, err := openRank(t.Context(), c, "some", s, some, 0); err == nil ||
				!strings.Contains(err.Error(), "nobody brought the states of ranks [1]") {
				t.Errorf("without the state of rank 1: %v", err)
			}
		}
		for _, job := range jobs {
			closeJob(t, job)
		}
		dying, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := openRank(dying, c, after, s, states, world[1]-1); err == nil {
			t.Error("a restore does not wait for all ranks")
		}
		cancel()
		jobs = openRanks(t, c, after, s, states)
		readTogether(t, jobs, seen, 0)
		for _, job := range jobs {
			closeJob(t, job)
		}
		for r, n := range seen.rows {
			if n != 1 {
				t.Fatalf("%v: %+v was handed over %d times", world, r, n)
			}
		}
		if len(seen.rows) != rows {
			t.Errorf("%v: %d different rows in all, want %d", world, len(seen.rows), rows)
		}
	}
}

// openRanks opens a session as all of its ranks at once, each with the states that it brings; nil is no restore.
func openRanks(t *testing.T, c *cluster.Cluster, id string, s *pb.Spec, states [][]*pb.State) []*client.Session {
	t.Helper()
	jobs := make([]*client.Session, len(states))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	var group errgroup.Group
	for rank := range states {
		group.Go(func() (err error) {
			if jobs[rank], err = openRank(ctx, c, id, s, states, rank); err != nil {
				cancel() // others may wait for it
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return jobs
}

// openRank opens it as one of them.
func openRank(
	ctx context.Context, c *cluster.Cluster, id string, s *pb.Spec, states [][]*pb.State, rank int,
) (*client.Session, error) {
	master, err := c.Master(ctx)
	if err != nil {
		return nil, err
	}
	return client.Open(ctx, client.Config{
		Masters: []string{master}, Session: id, Spec: s, Restore: states[rank],
		Rank: uint32(rank), WorldSize: uint32(len(states)),
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
		DialLink: rpc.LinkDialer(c.RPC()),
	})
}

// tally counts how often each row was handed over.
type tally struct {
	mu      sync.Mutex
	rows    map[row]int
	batches int
}

func (y *tally) add(b *client.Batch) (batches int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i, file := range b.Files {
		y.rows[row{b.Epoch, file, b.RowIDs[i]}]++
	}
	y.batches++
	return y.batches
}

// readAll lets ranks read until ctx ends, or to the end.
func readAll(ctx context.Context, jobs []*client.Session, got func(rank int, b *client.Batch)) error {
	var group errgroup.Group
	for rank, job := range jobs {
		group.Go(func() error {
			for {
				b, err := job.Next(ctx)
				if errors.Is(err, io.EOF) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
					return nil
				}
				if err != nil {
					return err
				}
				got(rank, b)
				b.Release()
			}
		})
	}
	return group.Wait()
}

// readTogether lets ranks read until they have handed over a number of batches between them, or to the end if it is 0.
func readTogether(t *testing.T, jobs []*client.Session, seen *tally, batches int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := readAll(ctx, jobs, func(_ int, b *client.Batch) {
		if n := seen.add(b); n == batches {
			stop()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func provenanceSpec(t testing.TB, rows int, epochs uint32) *pb.Spec {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.Parse([]byte(`{dataset: {uri: ` + filepath.Dir(paths[0]) + `/}, features: [{sparse: cat_0}], batch_size: 700,
		last_batch: uneven, shuffle: true, seed: 3, provenance: true}`))
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
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
		DialLink: rpc.LinkDialer(c.RPC()),
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

// next is a job's next batch, to be released, or nil at its end.
func next(t *testing.T, job *client.Session) *client.Batch {
	t.Helper()
	b, err := job.Next(t.Context())
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// take hands over one batch and counts its rows; it reports whether there was one.
func take(t *testing.T, job *client.Session, seen map[row]int) bool {
	t.Helper()
	b := next(t, job)
	if b == nil {
		return false
	}
	defer b.Release()
	for i, file := range b.Files {
		seen[row{b.Epoch, file, b.RowIDs[i]}]++
	}
	return true
}
