package scale

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
)

// BenchmarkTraffic measures what etcd has to bear of a thousand trainers that Sync each second, as clients do, and end
// a shard of 64 MiB every four: puts/s, wal-B/s and received-B/s of the leading member, db-MB once its history is
// compacted; and how long a Sync takes.
func BenchmarkTraffic(b *testing.B) {
	for name, last := range map[string]pb.LastBatch{"uneven": pb.LastBatch_UNEVEN, "pad": pb.LastBatch_PAD} {
		b.Run(name, func(b *testing.B) { traffic(b, last) })
	}
}

func traffic(b *testing.B, last pb.LastBatch) {
	const world, lasts = 1000, 20 * time.Second
	etcd := startEtcd(b)
	m := startMaster(b, etcd, newDisk(b, 100_000))
	defer m.stop()
	openSession(b, m, world, last)
	trainers := make([]*trainer, world)
	begin(b, m, trainers)
	member, err := etcd.Leader(b.Context())
	check(b, err)
	for b.Loop() {
		before, err := member.Metrics(b.Context())
		check(b, err)
		start := time.Now()
		ctx, stop := context.WithTimeout(b.Context(), lasts)
		took := drive(b, ctx, trainers)
		stop()
		seconds := time.Since(start).Seconds()
		after, err := member.Metrics(b.Context())
		check(b, err)
		check(b, etcd.Compact(b.Context()))
		compacted, err := member.Metrics(b.Context())
		check(b, err)
		for unit, name := range map[string]string{
			"puts/s": "etcd_mvcc_put_total", "wal-B/s": "etcd_disk_wal_write_bytes_total",
			"received-B/s": "etcd_network_client_grpc_received_bytes_total", "txns/s": "etcd_mvcc_txn_total",
		} {
			b.ReportMetric((after[name]-before[name])/seconds, unit)
		}
		b.ReportMetric(compacted["etcd_mvcc_db_total_size_in_use_in_bytes"]/1e6, "db-MB")
		b.ReportMetric(
			(after["etcd_mvcc_db_total_size_in_use_in_bytes"]-before["etcd_mvcc_db_total_size_in_use_in_bytes"])/seconds,
			"growth-B/s")
		b.ReportMetric(float64(len(took))/seconds, "Syncs/s")
		b.ReportMetric(took[len(took)/2].Seconds()*1e3, "ms/Sync")
		b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "ms/slow-Sync")
		b.ReportMetric(0, "ns/op")
	}
}

// drive lets trainers work and Sync until ctx ends, and returns how long each Sync took, in ascending order.
func drive(b *testing.B, ctx context.Context, trainers []*trainer) []time.Duration { //nolint:revive // b comes first in benchmarks
	b.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var group errgroup.Group
	for i, r := range trainers {
		group.Go(func() error {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			select { // they do not all begin at once
			case <-time.After(time.Duration(i) * time.Second / time.Duration(len(trainers))):
			case <-ctx.Done():
			}
			for n := 0; ctx.Err() == nil; n++ {
				r.advance(n%4 == 3)
				start := time.Now()
				if err := r.sync(b.Context()); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
			return nil
		})
	}
	check(b, group.Wait())
	slices.Sort(took)
	return took
}
