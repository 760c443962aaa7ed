package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/reference"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
)

// scaledSpec is a job that goes on for as long as the test likes.
func scaledSpec(t *testing.T, rows int) *pb.Spec {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.Parse([]byte(`{dataset: {uri: ` + filepath.Dir(paths[0]) + `/}, features: [{label: label}, {dense: int_*}, {sparse: cat_*}],
		transforms: [{op: fill_null, in: int_*, value: 0}, {op: log1p, in: int_*}, {op: sigrid_hash, in: cat_*, salt: 0, max: 1000000}],
		batch_size: 512, shuffle: true, seed: 3, provenance: true, epochs: 100000, last_batch: uneven}`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scaledJob is the trainers of a job, whose speed changes.
type scaledJob struct {
	dir     string
	compute atomic.Int64  // what a step takes besides reading, in ns
	last    atomic.Uint32 // the epoch after whose end they stop
	ended   atomic.Bool
}

// train reads as one rank, and writes down which rows of which epoch it was handed.
func (j *scaledJob) train(ctx context.Context, c *cluster.Cluster, s *pb.Spec, rank, world int) (err error) {
	master, err := c.Master(ctx)
	if err != nil {
		return err
	}
	session, err := client.Open(context.WithoutCancel(ctx), client.Config{
		Masters: []string{master}, Session: "job", Spec: s, Rank: uint32(rank), WorldSize: uint32(world),
		Budget: 8 << 20,
		Dial:   func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	ledgers := &ledgers{dir: j.dir, rank: rank, open: map[uint32]*reference.Ledger{}}
	defer func() { err = errors.Join(err, ledgers.close()) }()
	for {
		batch, err := session.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		over := j.ended.Load() && batch.Epoch > j.last.Load()
		if err := ledgers.take(batch); err != nil || over {
			return err
		}
		time.Sleep(time.Duration(j.compute.Load())) // the accelerator's work
	}
}

// ledgers are a rank's, one an epoch.
type ledgers struct {
	dir  string
	rank int
	open map[uint32]*reference.Ledger
}

func ledgerPath(dir string, epoch uint32, rank int) string {
	return filepath.Join(dir, fmt.Sprintf("epoch-%d-rank-%d", epoch, rank))
}

func (l *ledgers) take(b *client.Batch) (err error) {
	defer b.Release()
	rec := b.Record()
	defer rec.Release()
	if l.open[b.Epoch] == nil {
		if l.open[b.Epoch], err = reference.CreateLedger(ledgerPath(l.dir, b.Epoch, l.rank)); err != nil {
			return err
		}
	}
	return l.open[b.Epoch].AddBatch(rec, b.Valid)
}

func (l *ledgers) close() error {
	var errs []error
	for _, one := range l.open {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// TestTheFleetFollowsItsTrainers has trainers that take all that they get, then little, then much again: the fleet
// grows, shrinks and grows. Whatever moves meanwhile, each epoch has each row once, with its values, and each change of
// the fleet says why.
func TestTheFleetFollowsItsTrainers(t *testing.T) {
	const world, rows = 2, 20_000
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), MasterFlags: []string{
		"--scale=local", "--max-workers=3", "--scale-up-after=2s", "--scale-down-after=3s", "--worker-start-up=5s",
		"--worker-flag=--slots=2", "--worker-cpus=1",
	}}, 0)
	s := scaledSpec(t, rows)
	job := &scaledJob{dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for rank := range world {
		group.Go(func() error { return job.train(ctx, c, s, rank, world) })
	}
	const slow = 300 * time.Millisecond
	for _, phase := range []struct {
		what    string
		compute time.Duration
		holds   func(workers int) bool
	}{
		{"grows", 0, func(n int) bool { return n > 1 }},
		{"shrinks to one", slow, func(n int) bool { return n == 1 }},
		{"grows again", 0, func(n int) bool { return n > 1 }},
	} {
		job.compute.Store(int64(phase.compute))
		awaitWorkers(ctx, t, c, phase.what, phase.holds)
	}
	job.last.Store(epochNow(t, c))
	job.ended.Store(true)
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	disk, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	in, err := reference.New(t.Context(), s, disk)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing in the spec is drawn anew in each epoch but the order.
	expected, err := in.Expected(t.Context(), 0, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range job.last.Load() + 1 {
		compareEpoch(t, expected, job.dir, epoch, world)
	}
	sayWhy(t, c)
}

// awaitWorkers waits until so many workers serve.
func awaitWorkers(ctx context.Context, t *testing.T, c *cluster.Cluster, what string, holds func(int) bool) {
	t.Helper()
	for {
		n := 0
		atMaster(t, c, func(m pb.MasterClient) error {
			fleet, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
			for _, member := range fleet.GetMembers() {
				if member.GetRole() == "worker" && !member.GetDraining() {
					n++
				}
			}
			return err
		})
		if holds(n) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until the fleet %s: it has %d workers; %v", what, n, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func atMaster(t *testing.T, c *cluster.Cluster, f func(pb.MasterClient) error) {
	t.Helper()
	address, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial(address, c.RPC())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := f(pb.NewMasterClient(conn)); err != nil {
		t.Fatal(err)
	}
}

func epochNow(t *testing.T, c *cluster.Cluster) (epoch uint32) {
	t.Helper()
	atMaster(t, c, func(m pb.MasterClient) error {
		s, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "job"})
		epoch = s.GetProgress().GetEpoch()
		return err
	})
	return epoch
}

// compareEpoch holds that an epoch's rows were handed over once, with the values of an independent interpreter.
func compareEpoch(t *testing.T, expected *reference.Expected, dir string, epoch uint32, world int) {
	t.Helper()
	var found []string
	for rank := range world {
		p := ledgerPath(dir, epoch, rank)
		if _, err := os.Stat(p); err == nil { // one may have got none
			found = append(found, p)
		}
	}
	report, err := reference.Compare(expected, found...)
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		t.Errorf("epoch %d: %v", epoch, report)
	}
}

// sayWhy holds that each change of the fleet is an event with its reason.
func sayWhy(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	up, down := 0, 0
	atMaster(t, c, func(m pb.MasterClient) error {
		reply, err := m.ListEvents(t.Context(), &pb.ListEventsRequest{})
		for _, e := range reply.GetEvents() {
			t.Log(e.GetKind(), e.GetWords())
			d := e.GetDecision()
			if d == nil {
				continue
			}
			if !strings.Contains(d.GetReason(), ": ") || d.GetReason() != e.GetWords() {
				t.Errorf("a decision without a reason: %v", e)
			}
			switch {
			case d.GetTo() > d.GetFrom():
				up++
			case d.GetTo() < d.GetFrom():
				down++
			}
		}
		return err
	})
	if up < 3 || down < 1 { // the first brings up the least there is to be
		t.Errorf("events tell that the fleet grew %d times, and shrank %d times", up, down)
	}
}
