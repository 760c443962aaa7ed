package scale

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
)

// BenchmarkTakeover measures how long a master that comes to lead takes until it answers the trainers of a session of a
// million shards in its midst: s/takeover, and until it has planned another block, for which it reads the listing:
// s/listing. The time until etcd says that its predecessor is gone is not in it.
func BenchmarkTakeover(b *testing.B) {
	const shards, world = 1_000_000, 1000
	etcd := startEtcd(b)
	d := newDisk(b, shards/groups)
	first := startMaster(b, etcd, d)
	openSession(b, first, world, pb.LastBatch_UNEVEN)
	trainers := make([]*trainer, world)
	begin(b, first, trainers)
	first.stop()

	var answered, planned time.Duration
	for b.Loop() {
		start := time.Now()
		next := startMaster(b, etcd, d)
		for _, r := range trainers {
			r.master = next
			check(b, r.sync(b.Context()))
			if r.rank == 0 {
				answered += time.Since(start)
			}
		}
		for before := progress(b, next).GetBlocksPlanned(); progress(b, next).GetBlocksPlanned() == before; {
			for _, r := range trainers {
				r.work()
				check(b, r.sync(b.Context()))
			}
		}
		planned += time.Since(start)
		next.stop()
	}
	b.ReportMetric(answered.Seconds()/float64(b.N), "s/takeover")
	b.ReportMetric(planned.Seconds()/float64(b.N), "s/listing")
	b.ReportMetric(0, "ns/op")
}

// begin lets trainers join and work until each has had several runs.
func begin(b *testing.B, m pb.MasterClient, trainers []*trainer) {
	b.Helper()
	var group errgroup.Group
	group.SetLimit(64)
	for i := range trainers {
		r := &trainer{master: m, rank: uint32(i), world: uint32(len(trainers))}
		trainers[i] = r
		group.Go(func() error {
			if err := r.join(b.Context()); err != nil {
				return err
			}
			for range 20 {
				r.work()
				if err := r.sync(b.Context()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(b, group.Wait())
	p := progress(b, m)
	b.Logf("%d of %d blocks are planned", p.GetBlocksPlanned(), p.GetBlocks())
}

func progress(b *testing.B, m pb.MasterClient) *pb.Progress {
	b.Helper()
	s, err := m.GetSession(b.Context(), &pb.GetSessionRequest{Session: session})
	check(b, err)
	return s.GetProgress()
}
