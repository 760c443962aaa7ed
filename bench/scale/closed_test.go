package scale

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// BenchmarkTakeoverBesideClosedSessions measures how long a master that comes to lead takes until it answers a trainer
// of the one session that runs, without closed sessions and with 100,000 of them: s/without, s/with (medians), and
// their ratio. B/closed is what etcd keeps of a closed session. s/asleep is the same beside 10,000 sessions that sleep,
// of which all keys are there.
func BenchmarkTakeoverBesideClosedSessions(b *testing.B) {
	const closed, asleep, takeovers = 100_000, 10_000, 9
	etcd := startEtcd(b)
	d := newDisk(b, 16)
	r := &trainer{world: 1}
	begins := func() {
		m := startMaster(b, etcd, d)
		openSession(b, m, 1, pb.LastBatch_UNEVEN)
		*r = trainer{world: 1, master: m}
		check(b, r.join(b.Context()))
		m.stop()
	}
	var without, with, beside time.Duration
	for b.Loop() {
		begins()
		without = takeover(b, takeovers, etcd, d, r)
		b.ReportMetric(float64(len(closeIt(b, etcd, d, r, closed))), "B/closed")
		begins()
		with = takeover(b, takeovers, etcd, d, r)
		putAsleep(b, etcd, asleep)
		beside = takeover(b, takeovers, etcd, d, r)
	}
	b.ReportMetric(without.Seconds(), "s/without")
	b.ReportMetric(with.Seconds(), "s/with")
	b.ReportMetric(beside.Seconds(), "s/asleep")
	b.ReportMetric(with.Seconds()/without.Seconds(), "with/without")
	b.ReportMetric(0, "ns/op")
}

// takeover is the median time until a new master answers the trainer.
func takeover(b *testing.B, n int, etcd *storetest.Cluster, d *disk, r *trainer) time.Duration {
	b.Helper()
	var all []time.Duration
	for range n {
		start := time.Now()
		m := startMaster(b, etcd, d)
		r.master = m
		check(b, r.sync(b.Context()))
		all = append(all, time.Since(start))
		m.stop()
	}
	slices.Sort(all)
	return all[n/2]
}

// putAsleep puts n copies of the session into etcd, each with a summary beside it, as if they slept.
func putAsleep(b *testing.B, etcd *storetest.Cluster, n int) {
	b.Helper()
	keys := []string{"meta", "head", "list/00000000", "rank/0000000000"}
	var values []string
	for _, key := range keys {
		value, err := etcd.Get(b.Context(), "penstock/s/"+session+"/"+key)
		check(b, err)
		values = append(values, value)
	}
	each := len(keys) + 1
	check(b, etcd.Put(b.Context(), each*n, func(i int) (key, value string) {
		name := fmt.Sprintf("asleep-%d", i/each)
		if k := i % each; k < len(keys) {
			return "penstock/s/" + name + "/" + keys[k], values[k]
		}
		return "penstock/closed/" + name, values[0] // whatever it is: nobody reads it
	}))
}

// closeIt has the trainer end its session, puts n copies of what is kept of it into etcd, deletes it, and returns what
// was kept.
func closeIt(b *testing.B, etcd *storetest.Cluster, d *disk, r *trainer, n int) string {
	b.Helper()
	m := startMaster(b, etcd, d)
	defer m.stop()
	r.master = m
	for !r.last.GetFinished() {
		r.work()
		check(b, r.sync(b.Context()))
	}
	_, err := m.Sync(b.Context(), &pb.SyncRequest{
		Session: session, Nonce: fmt.Sprint(r.rank), Generation: r.joined.GetGeneration(),
		Incarnation: r.joined.GetIncarnation(), Leave: true,
	})
	check(b, err)
	var at int64
	for at == 0 {
		s, err := m.GetSession(b.Context(), &pb.GetSessionRequest{Session: session})
		check(b, err)
		at = s.GetClosedUnix() * 1000
	}
	kept, err := etcd.Get(b.Context(), "penstock/closed/"+session)
	check(b, err)
	check(b, etcd.Put(b.Context(), 2*n, func(i int) (key, value string) {
		name := fmt.Sprintf("old-%d", i/2)
		if i%2 == 0 {
			return "penstock/closed/" + name, kept
		}
		return fmt.Sprintf("penstock/ended/%020d/%s", math.MaxInt64-at+int64(i), name), ""
	}))
	_, err = m.DeleteSession(b.Context(), &pb.DeleteSessionRequest{Session: session})
	check(b, err)
	return kept
}
