package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// TestFewSlotsServeRanksInStep has a fleet with fewer slots than streams must be open for ranks that wait for each
// other after each batch. Shards are larger than what a trainer takes in of them, so a stream is held back until all
// ranks have their batch. For that, others need its slot.
func TestFewSlotsServeRanksInStep(t *testing.T) {
	t.Parallel()
	const rows, world = 24_000, 2
	fast := provenanceSpec(t, rows, 1)
	fast.Features = append(fast.Features, &pb.Feature{Name: []string{"int_*"}, Layout: pb.Layout_DENSE})
	fast.BatchSize, fast.LastBatch = 100, pb.LastBatch_PAD
	inOrder := provenanceSpec(t, rows, 1)
	inOrder.Features = fast.GetFeatures()
	inOrder.BatchSize, inOrder.LastBatch, inOrder.Order, inOrder.Lanes = 100, pb.LastBatch_PAD, pb.Order_DETERMINISTIC,
		4
	for _, tc := range []struct {
		name, flag string
		spec       *pb.Spec
	}{
		{"fast, 1 slot", "--slots=1", fast},
		{"deterministic, 1 slot", "--slots=1", inOrder},
		{"deterministic, 2 slots", "--slots=2", inOrder},
		{"deterministic, little memory", "--memory=16MiB", inOrder},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), WorkerFlags: []string{tc.flag}}, 1)
			jobs := openTight(t, c, tc.spec, world)
			seen := make(map[row]int)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			for countStep(ctx, t, jobs, seen) {
			}
			for _, job := range jobs {
				closeJob(t, job)
			}
			if len(seen) != rows {
				t.Errorf("%d different rows, want %d", len(seen), rows)
			}
		})
	}
}

// openTight opens ranks that take in little ahead.
func openTight(t *testing.T, c *cluster.Cluster, s *pb.Spec, world int) []*client.Session {
	t.Helper()
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	network := c.RPC()
	network.StreamWindow = 64 << 10
	jobs := make([]*client.Session, world)
	var group errgroup.Group
	for rank := range jobs {
		group.Go(func() (err error) {
			jobs[rank], err = client.Open(context.WithoutCancel(t.Context()), client.Config{
				Masters: []string{master}, Session: "tight", Spec: s, Rank: uint32(rank), WorldSize: uint32(world),
				Budget:   1,
				Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, network) },
				DialLink: rpc.LinkDialer(network),
				Logger:   slog.New(slog.DiscardHandler),
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return jobs
}

// countStep is one step of all ranks, whose rows it counts; false: they are at their end.
func countStep(ctx context.Context, t *testing.T, jobs []*client.Session, seen map[row]int) bool {
	t.Helper()
	batches := make([]*client.Batch, len(jobs))
	var group errgroup.Group
	for rank, job := range jobs {
		group.Go(func() (err error) {
			if batches[rank], err = job.Next(ctx); err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("rank %d, %d rows came: %w", rank, len(seen), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if b == nil {
			return false
		}
		for i := range b.Valid {
			at := row{b.Epoch, b.Files[i], b.RowIDs[i]}
			if seen[at]++; seen[at] > 1 {
				t.Fatalf("%+v was handed over twice", at)
			}
		}
		b.Release()
	}
	return true
}
