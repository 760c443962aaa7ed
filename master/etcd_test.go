package master_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// Answers of etcd get lost, requests too, and some requests arrive late: what was granted and recorded is read again
// before anything else is decided.
func TestLostAnswersOfEtcd(t *testing.T) {
	e := etcd(t, "127.0.0.1:0")
	proxy, err := storetest.NewProxy(t.Context(), e.Endpoints()[0])
	check(t, err)
	t.Cleanup(func() { check(t, proxy.Close()) })
	m := start(t, settings{endpoints: []string{proxy.Endpoint}, call: 5 * time.Second, ttl: time.Minute})
	dir := dataset(t, 12)
	openSession(t, m, "run", newSpec(dir), 2)
	a, b := newTrainer(t, m, "run", 0, 2).mustJoin("a"), newTrainer(t, m, "run", 1, 2).mustJoin("b")

	const seed = 7
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	var lost atomic.Int32
	var late sync.WaitGroup
	proxy.OnTxn(func(forward func() error) error {
		mu.Lock()
		fate := rng.IntN(9)
		mu.Unlock()
		if fate < 3 {
			lost.Add(1)
		}
		switch fate {
		case 0: // the answer
			_ = forward() // etcd's word is lost, whatever it was
			return storetest.ErrLost
		case 1: // the request
			return storetest.ErrLost
		case 2: // nothing, but it takes its time
			late.Go(func() { _ = forward() })
			return storetest.ErrLost
		}
		return forward()
	})
	eventually(t, "both are done", func() bool {
		for _, r := range []*trainer{a, b} {
			r.consume(1)
			if err := r.sync(); err != nil && status.Code(err) != codes.Unavailable {
				t.Fatal(err)
			}
		}
		return a.finished() && b.finished()
	})
	proxy.OnTxn(nil)
	late.Wait()
	once(t, 12, 1, a, b)
	if lost.Load() < 5 {
		t.Errorf("only %d requests or answers were lost", lost.Load())
	}
}

// A full etcd stops the session, with words that say what to do; it goes on once that was done, also under a master
// that met it full.
func TestAFullEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster, err := storetest.Start(ctx, storetest.Config{
		Dir: t.TempDir(), Hosts: []string{"127.0.0.1"},
		Quota: 8 << 20,
	})
	check(t, err)
	t.Cleanup(func() { check(t, cluster.Close()) })
	first := start(t, settings{endpoints: cluster.Endpoints()})
	openSession(t, first, "run", newSpec(dataset(t, 4)), 1)
	second := start(t, settings{endpoints: cluster.Endpoints()}) // it has a lease, which a full etcd would not grant
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	eventually(t, "some was consumed", func() bool { check(t, r.sync()); return r.consume(2) == 2 })
	check(t, r.sync())

	check(t, cluster.Fill(ctx))
	r.consume(1)
	for range 2 {
		if err := r.sync(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "alarm disarm") {
			t.Errorf("with a full etcd a Sync gets %v", err)
		}
	}
	if _, err := first.GetSession(ctx, &pb.GetSessionRequest{Session: "run"}); err == nil ||
		!strings.Contains(err.Error(), "alarm disarm") {
		t.Errorf("with a full etcd, who looks at the session is told %v", err)
	}
	first.stop()
	r.master = second
	if err := r.sync(); status.Code(err) != codes.Unavailable {
		t.Errorf("with a full etcd the next master says %v", err)
	}
	check(t, cluster.MakeRoom(ctx))
	r.work(r.finished)
	once(t, 4, 1, r)
	list, err := second.ListSessions(ctx, &pb.ListSessionsRequest{})
	check(t, err)
	if s := list.GetSessions(); len(s) != 1 || s[0].GetState() != pb.SessionState_FINISHED {
		t.Errorf("in the end there is %v", s)
	}
}
