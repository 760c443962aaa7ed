package cluster_test

import (
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// TestLoad holds that a master knows what its workers do: first all stages of a trainer's streams, then, when it takes no
// more, nothing but to wait for it.
func TestLoad(t *testing.T) {
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial(master, c.RPC())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	job := open(t, c, provenanceSpec(t, 20_000, 10_000), nil)
	defer closeJob(t, job)
	wait := func(what string, reading bool, holds func(*pb.FleetLoad) bool) {
		t.Helper()
		seen := map[row]int{}
		for end := time.Now().Add(time.Minute); ; {
			f, err := pb.NewMasterClient(conn).GetFleet(t.Context(), &pb.GetFleetRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if holds(f.GetLoad()) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("waited in vain for %s: %v", what, f)
			}
			if reading {
				take(t, job, seen)
			} else {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	wait("all stages of two workers", true, func(l *pb.FleetLoad) bool {
		n := l.GetCounters()
		return l.GetWorkers() == 2 && l.GetSlots() > 0 && l.GetSeconds() > 0 &&
			min(n.GetRows(), n.GetBytesRead(), n.GetBytesSent(), n.GetStorageNs(), n.GetDecodeNs(), n.GetTransformNs(), n.GetTensorNs(), n.GetSendNs()) > 0
	})
	wait("workers that wait for the trainer, or have sent all that it has room for", false, func(l *pb.FleetLoad) bool {
		n := l.GetCounters()
		return l.GetSeconds() > 0 && n.GetSendNs() >= 100*(n.GetStorageNs()+n.GetDecodeNs()+n.GetTransformNs()+n.GetTensorNs())
	})
}
