package cluster_test

import (
	"errors"
	"io"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
)

// TestRanksInStep has ranks that wait for each other after each batch, most of them without a row. They get equally
// many batches, of one schema, and end with each other.
func TestRanksInStep(t *testing.T) {
	t.Parallel()
	const rows, epochs, world = 1500, 3, 4
	s := provenanceSpec(t, rows, epochs)
	s.BatchSize, s.LastBatch = 200, pb.LastBatch_PAD
	s.Features = append(s.Features,
		&pb.Feature{Name: []string{"int_*"}, Layout: pb.Layout_DENSE}, &pb.Feature{
			Name:   []string{"label"},
			Layout: pb.Layout_LABEL,
		})
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	jobs := openRanks(t, c, "in-step", s, make([][]*pb.State, world))
	seen := make(map[row]int)
	var schema *arrow.Schema
	for step := 1; ; step++ {
		batches := together(t, jobs)
		ended := 0
		for rank, b := range batches {
			if b == nil {
				ended++
				continue
			}
			record := b.Record()
			if schema == nil {
				schema = record.Schema()
			}
			if b.Rows != 200 || record.NumRows() != 200 || b.Epoch != batches[0].Epoch ||
				!record.Schema().Equal(schema) {
				t.Fatalf("step %d, rank %d: %d rows of epoch %d, %v", step, rank, b.Rows, b.Epoch, record.Schema())
			}
			record.Release()
			for i := range b.Valid {
				seen[row{b.Epoch, b.Files[i], b.RowIDs[i]}]++
			}
			b.Release()
		}
		if ended == world {
			break
		}
		if ended > 0 {
			t.Fatalf("step %d: %d of %d ranks are at their end", step, ended, world)
		}
	}
	for _, job := range jobs {
		closeJob(t, job)
	}
	if len(seen) != rows*epochs {
		t.Errorf("%d different rows, want %d", len(seen), rows*epochs)
	}
	for r, n := range seen {
		if n != 1 {
			t.Fatalf("%+v was handed over %d times", r, n)
		}
	}
}

// together is one step of all ranks: nil is a rank at its end.
func together(t *testing.T, jobs []*client.Session) []*client.Batch {
	t.Helper()
	batches := make([]*client.Batch, len(jobs))
	var group errgroup.Group
	for i, job := range jobs {
		group.Go(func() (err error) {
			if batches[i], err = job.Next(t.Context()); errors.Is(err, io.EOF) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return batches
}
