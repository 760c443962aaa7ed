package master_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

func TestTwoTrainersReadAllOfEachEpochOnce(t *testing.T) {
	m := single(t)
	s := newSpec(dataset(t, 4))
	s.Epochs = 3
	openSession(t, m, "run", s, 2)
	a, b := newTrainer(t, m, "run", 0, 2).mustJoin("a"), newTrainer(t, m, "run", 1, 2).mustJoin("b")
	eventually(t, "both are done", func() bool {
		for _, r := range []*trainer{a, b} {
			check(t, r.sync())
			r.consume(1)
		}
		return a.finished() && b.finished()
	})
	once(t, 4, 3, a, b)
	if len(a.read) == 0 || len(b.read) == 0 {
		t.Error("one of the two did all the work")
	}
	got, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
	check(t, err)
	if got.GetState() != pb.SessionState_FINISHED || got.GetProgress().GetRowsDelivered() != 4*3*groups*rows {
		t.Errorf("the session ends as %v, %v", got.GetState(), got.GetProgress())
	}
	eventually(t, "it is told that the session has finished", func() bool {
		o, err := m.Observe(t.Context(), &pb.ObserveRequest{Session: "run"})
		check(t, err)
		return o.GetVerdict() == fmt.Sprintf("session run has finished: %d rows were handed over", 4*3*groups*rows) &&
			o.GetBottleneck() == pb.Bottleneck_NONE &&
			o.GetSessions()[0].GetState() == pb.SessionState_FINISHED &&
			o.GetSessions()[0].GetProgress().GetEpoch() == 3
	})
}

func TestRetriedCallsChangeNothing(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 3)), 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	first := r.joined
	r.mustJoin("a")
	if first.GetIncarnation() != r.joined.GetIncarnation() || r.joined.GetKind() != pb.JoinKind_FRESH {
		t.Errorf("a retried Join is told %v, %v", r.joined.GetKind(), r.joined.GetIncarnation())
	}
	eventually(t, "there are grants", func() bool { check(t, r.sync()); return len(r.grants) > 0 })
	r.consume(1)
	req := r.request()
	for range 3 {
		check(t, r.send(req))
	}
	r.work(r.finished)
	check(t, r.send(r.request()))
	once(t, 3, 1, r)
}

func TestARejoinFencesTheOldStart(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 3)), 1)
	old := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	eventually(t, "there are grants", func() bool { check(t, old.sync()); return len(old.grants) > 0 })
	old.consume(1)
	check(t, old.sync())
	next := newTrainer(t, m, "run", 0, 1).mustJoin("b")
	if next.joined.GetKind() != pb.JoinKind_REJOIN || !next.consumed.Equal(old.consumed) {
		t.Errorf("the second start is told %v, having consumed %v; the first one %v",
			next.joined.GetKind(), next.consumed, old.consumed)
	}
	if err := old.sync(); status.Code(err) != codes.Aborted {
		t.Errorf("the first start is told %v, want to be fenced", err)
	}
	next.work(next.finished)
	once(t, 3, 1, old, next)
}

func TestWhoLeavesGivesBack(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 4)), 2)
	a, b := newTrainer(t, m, "run", 0, 2).mustJoin("a"), newTrainer(t, m, "run", 1, 2).mustJoin("b")
	eventually(t, "there are grants", func() bool { check(t, a.sync()); return len(a.grants) > 0 })
	a.consume(1)
	req := a.request()
	req.Leave = true
	check(t, a.send(req))
	check(t, a.send(req))
	b.work(b.finished)
	once(t, 4, 1, a, b)
}

func TestTicketsNameLivingWorkers(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 2)), 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	eventually(t, "there are grants", func() bool { check(t, r.sync()); return len(r.grants) > 0 })
	if got := r.open(r.grants[0]).GetWorkers(); len(got) > 0 {
		t.Fatalf("without workers the ticket names %v", got)
	}
	names := func() map[string]string {
		check(t, r.sync())
		found := map[string]string{}
		for _, g := range r.grants {
			for _, w := range r.open(g).GetWorkers() {
				found[w.GetName()] = w.GetAddress()
			}
		}
		return found
	}
	addWorker(t, m, fleet.Member{Name: "one", Address: "10.0.0.1:1", Slots: 8})
	two := addWorker(t, m, fleet.Member{Name: "two", Address: "10.0.0.2:1", Slots: 8})
	eventually(t, "tickets name both", func() bool {
		got := names()
		return len(got) == 2 && got["one"] == "10.0.0.1:1" && got["two"] == "10.0.0.2:1"
	})
	// what a Sync says may be older than its tickets
	eventually(t, "12 streams to 2 workers of 8 slots each", func() bool {
		check(t, r.sync())
		return r.last.GetWorkers() == 2 && r.last.GetStreams() == 12
	})
	eventually(t, "the same fleet and grants are not sent again",
		func() bool { check(t, r.sync()); return r.last.GetUnchanged() })
	check(t, two.Update(func(m *fleet.Member) { m.Draining = true }))
	eventually(t, "tickets leave out who drains", func() bool {
		got := names()
		return len(got) == 1 &&
			got["one"] != ""
	})
}

// A zone is written into each ticket of an answer.
func TestLongZonesAreRefused(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 1)), 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	r.zone = strings.Repeat("z", 257)
	if err := r.sync(); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "a zone has at most 256 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestTicketsNameWorkersOfTheTrainersZoneFirst(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 20)), 2)
	addWorker(t, m, fleet.Member{Name: "one", Address: "10.0.0.1:1", Slots: 8, Zone: "north"})
	addWorker(t, m, fleet.Member{Name: "two", Address: "10.0.0.2:1", Slots: 8, Zone: "south"})
	for rank, zone := range []string{"north", "south"} {
		r := newTrainer(t, m, "run", uint32(rank), 2).mustJoin("a")
		r.zone = zone
		eventually(t, "tickets name both, the nearer one first", func() bool {
			check(t, r.sync())
			for _, g := range r.grants {
				got := r.open(g).GetWorkers()
				if len(got) != 2 || got[0].GetName() != []string{"one", "two"}[rank] {
					return false
				}
			}
			return len(r.grants) > 0
		})
	}
}
