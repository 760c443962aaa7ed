package master_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
)

func TestALeaseThatEndsGivesBack(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Lease: 400 * time.Millisecond}})
	openSession(t, m, "run", newSpec(dataset(t, 4)), 2)
	silent, busy := newTrainer(t, m, "run", 0, 2).mustJoin("a"), newTrainer(t, m, "run", 1, 2).mustJoin("b")
	if silent.joined.GetLeaseMs() != 400 {
		t.Errorf("the lease is %d ms", silent.joined.GetLeaseMs())
	}
	eventually(t, "there are grants", func() bool { check(t, silent.sync()); return len(silent.grants) > 1 })
	silent.consume(1)
	last := time.Now() // before the master hears it
	check(t, silent.sync())
	busy.work(busy.finished)
	if passed := time.Since(last); passed < 400*time.Millisecond {
		t.Errorf("others got the shards %v after the last Sync", passed)
	}
	once(t, 4, 1, silent, busy)
}

// A trainer that died is given up, however often its session is loaded again meanwhile.
func TestALeaseEndsThoughTheSessionIsLoadedAgain(t *testing.T) {
	const lease = time.Second
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Lease: lease}})
	openSession(t, m, "run", newSpec(dataset(t, 4)), 2)
	silent := newTrainer(t, m, "run", 0, 2).mustJoin("a")
	eventually(t, "there are grants", func() bool { check(t, silent.sync()); return len(silent.grants) > 1 })
	eventually(t, "its lease has ended", func() bool {
		if err := m.master.Panic(t.Context(), "run"); status.Code(err) != codes.Internal {
			t.Fatalf("a call that panics gets %v", err)
		}
		got, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
		return err == nil && !got.GetProgress().GetRanks()[0].GetPresent()
	})
}

// What a trainer handed over and told nobody of before it died comes again: the master says at most how many rows these
// are.
func TestRowsThatMayRepeatAreBounded(t *testing.T) {
	const lease = 3 * time.Second // on a busy machine, too, it lives from a Sync to the next call
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Lease: lease}})
	openSession(t, m, "run", newSpec(dataset(t, 4)), 2)
	silent := newTrainer(t, m, "run", 0, 2).mustJoin("a")
	mayRepeat := func() int64 {
		got, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
		check(t, err)
		return got.GetProgress().GetRanks()[0].GetMayRepeat()
	}
	expired := func() bool {
		got, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
		check(t, err)
		return !got.GetProgress().GetRanks()[0].GetPresent()
	}
	eventually(t, "there are grants", func() bool { check(t, silent.sync()); return len(silent.grants) > 1 })
	held := int64(len(silent.grants) * rows)
	silent.consume(1)
	if n := mayRepeat(); n != 0 {
		t.Errorf("%d rows may repeat of a trainer that lives", n)
	}
	eventually(t, "its lease has ended", expired)
	if n := mayRepeat(); n != held {
		t.Errorf("at most %d rows may repeat; it held %d, and may have handed over all", n, held)
	}
	check(t, silent.sync()) // nobody has its shards yet: what it says is taken
	if n := mayRepeat(); n != 0 {
		t.Errorf("%d rows may repeat of a trainer whose word was taken", n)
	}
	held = int64(len(silent.grants) * rows)
	silent.consume(1)
	check(t, silent.join("c")) // the launcher says that it died
	again := held
	eventually(t, "there are grants", func() bool { check(t, silent.sync()); return len(silent.grants) > 0 })
	if n := mayRepeat(); n != again {
		t.Errorf("at most %d rows may repeat after another start; want %d", n, again)
	}
}

func TestSyncKeepsALease(t *testing.T) {
	const lease = 3 * time.Second // on a busy machine, too, a Sync takes less
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Lease: lease}})
	openSession(t, m, "run", newSpec(dataset(t, 2)), 2)
	r := newTrainer(t, m, "run", 0, 2).mustJoin("a")
	eventually(t, "there are grants", func() bool { check(t, r.sync()); return len(r.grants) > 0 })
	for end := time.Now().Add(2 * lease); time.Now().Before(end); time.Sleep(lease / 100) {
		check(t, r.sync())
	}
	got, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
	check(t, err)
	if ranks := got.GetProgress().GetRanks(); len(ranks) != 1 || !ranks[0].GetPresent() || len(r.grants) == 0 {
		t.Errorf("a trainer that Syncs is %v, with %d grants", ranks, len(r.grants))
	}
}

func TestRestoreReadsExactlyWhatComesAfter(t *testing.T) {
	m := single(t)
	s := newSpec(dataset(t, 4))
	s.Epochs = 2
	openSession(t, m, "run", s, 1)
	old := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	eventually(t, "some was consumed", func() bool { check(t, old.sync()); return old.consume(2) == 2 })
	check(t, old.sync())
	state, before := old.state(), maps.Clone(old.read)
	old.work(func() bool { return len(old.read) > 6 }) // in vain

	a, b := newTrainer(t, m, "run", 0, 2), newTrainer(t, m, "run", 1, 2)
	foreign := old.state()
	foreign.PlannerDigest = plan.Config{}.Digest()
	if err := a.restore("x", true, foreign); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), "other sizes") {
		t.Errorf("a state of a dataset that was cut otherwise: %v", err)
	}
	eventually(t, "both are restored", func() bool {
		check(t, a.restore("c", true, state))
		check(t, b.restore("d", true))
		return a.joined.GetKind() == pb.JoinKind_RESTORED && b.joined.GetKind() == pb.JoinKind_RESTORED
	})
	if err := old.sync(); status.Code(err) != codes.Aborted {
		t.Errorf("the generation before is told %v", err)
	}
	eventually(t, "both are done", func() bool {
		for _, r := range []*trainer{a, b} {
			check(t, r.sync())
			r.consume(1)
		}
		return a.finished() && b.finished()
	})
	old.read = before
	once(t, 4, 2, old, a, b)
}
