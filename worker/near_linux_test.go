package worker

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// Trainers on this machine have a way of their own to a worker, unless it sends all by network.
func TestNearWay(t *testing.T) {
	gossip := startMaster(t, &fakeMaster{reports: make(chan *pb.WorkerReport, 1), drain: make(chan struct{})},
		rpc.Config{})
	for _, network := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		up := make(chan string, 1)
		w, err := New(Config{
			Listener: l, Advertise: "10.0.0.7:7071", Network: network, Fleet: fleet.Config{
				Bind: "127.0.0.1:0",
				Join: []string{gossip},
			},
			Storage: &pipelinetest.Store{}, Ops: transform.Builtin(), Logger: slog.New(slog.DiscardHandler),
			Up: func(address, _ string) { up <- address },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", "@penstock-link "+<-up)
		if network != (err != nil) {
			t.Errorf("network %v: a trainer that connects is told %v", network, err)
		}
		if err == nil {
			conn.Close()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
