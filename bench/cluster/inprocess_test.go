package cluster_test

import (
	"context"
	"hash/crc32"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/figures"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	gossip "github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker"
	"github.com/penstock-ml/penstock/worker/transform"
)

// workHere runs a worker of the cluster in this process until the test ends.
func workHere(t *testing.T, c *cluster.Cluster, local *worker.Local) {
	t.Helper()
	master, err := c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	w, err := worker.New(worker.Config{
		Listener: l, RPC: c.RPC(), Storage: store, Local: local, Ops: transform.Builtin(),
		Logger: slog.New(slog.DiscardHandler),
		Fleet: gossip.Config{
			Self: gossip.Member{Name: "here"}, Bind: "127.0.0.1:0", Join: []string{master.Gossip},
			Secret: c.RPC().Token,
		},
		Up: func(string, string) { close(up) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		store.Close()
	})
	select {
	case <-up:
	case <-time.After(time.Minute):
		t.Fatal("the worker does not come up")
	}
}

// TestTrainerAndWorkerShareAProcess reads the same rows over the network and without it.
func TestTrainerAndWorkerShareAProcess(t *testing.T) {
	t.Parallel()
	const rows = 60_000
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 0)
	local := &worker.Local{}
	workHere(t, c, local)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := "dataset: {uri: " + filepath.Dir(paths[0]) +
		"/}\nfeatures: [{dense: int_*}, {sparse: cat_*}, {label: label}]\n" +
		"batch_size: 5000\nprovenance: true\n"
	type reading struct {
		rows     int
		digest   uint32 // whatever the order of rows
		received int64
		seconds  float64 // of this process's CPUs
	}
	read := func(id, text string, budget int64, local client.Local) (r reading) {
		s, err := spec.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s.Epochs = max(1, s.GetEpochs())
		began := figures.CPUSeconds()
		job, err := client.Open(t.Context(), client.Config{
			Masters: []string{master}, Session: id, Spec: s, Local: local, Budget: budget,
			Logger:   slog.New(slog.DiscardHandler),
			Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
			DialLink: rpc.LinkDialer(c.RPC()),
		})
		if err != nil {
			t.Fatal(err)
		}
		for b := next(t, job); b != nil; b = next(t, job) {
			for i := range b.Rows {
				h := crc32.NewIEEE()
				ids := b.Sparse[0]
				// never fails
				_, _ = h.Write(arrow.Float32Traits.CastToBytes(b.Dense[i*len(b.DenseNames) : (i+1)*len(b.DenseNames)]))
				_, _ = h.Write(arrow.Int64Traits.CastToBytes(ids.Values[ids.Offsets[i]:ids.Offsets[i+1]]))
				_, _ = h.Write(arrow.Int64Traits.CastToBytes(b.RowIDs[i : i+1]))
				r.digest += h.Sum32()
			}
			r.rows += b.Rows
			b.Release()
		}
		r.received = job.Stats().Received
		closeJob(t, job)
		r.seconds = figures.CPUSeconds() - began
		return r
	}
	over, within := read("network", text+"epochs: 3\n", 0, nil), read("process", text+"epochs: 3\n", 0, local)
	// Lanes are waited for in turns, by streams that have little room, and are more than the worker has places.
	lanes := read("lanes", text+"order: deterministic\nlanes: 8\n", 1<<20, local)
	t.Logf("over the network %.2f CPU seconds, within the process %.2f", over.seconds, within.seconds)
	if over.rows != 3*rows || within.rows != over.rows || within.digest != over.digest {
		t.Errorf("over the network %+v, within the process %+v", over, within)
	}
	if 3*lanes.rows != over.rows || 3*lanes.digest != over.digest {
		t.Errorf("over the network %+v, in lanes within the process %+v", over, lanes)
	}
	if over.received == 0 || within.received != 0 || lanes.received != 0 {
		t.Errorf("%d bytes came over the network, %d and %d within the process", over.received, within.received,
			lanes.received)
	}
}
