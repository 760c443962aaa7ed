package master_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master"
)

func eventsOf(t *testing.T, m *node, req *pb.ListEventsRequest) []*pb.Event {
	t.Helper()
	ctx, cancel := timely(t)
	defer cancel()
	reply, err := m.ListEvents(ctx, req)
	check(t, err)
	return reply.GetEvents()
}

// awaitEvent waits for an event, and returns all that there are then.
func awaitEvent(t *testing.T, m *node, kind pb.EventKind, session, words string) (found *pb.Event) {
	t.Helper()
	eventually(t, "there is an event of kind "+kind.String()+" with the words "+words, func() bool {
		for _, e := range eventsOf(t, m, &pb.ListEventsRequest{}) {
			if e.GetKind() == kind && e.GetSession() == session && strings.Contains(e.GetWords(), words) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// What happens to a fleet and its sessions is told once, and the next leader knows it, too.
func TestEvents(t *testing.T) {
	e := etcd(t, "")
	first := start(t, settings{endpoints: e.Endpoints()})
	second := start(t, settings{
		endpoints: e.Endpoints(),
		Config:    master.Config{Fleet: fleet.Config{Join: []string{first.gossip}}},
	})
	w := addWorker(t, first, fleet.Member{Name: "w", Address: "10.0.0.1:1", Slots: 8})
	if e := awaitEvent(t, first, pb.EventKind_WORKER, "", "w joined; the fleet has 1 worker"); e.GetWorker() != "w" {
		t.Errorf("it names no worker: %v", e)
	}
	openSession(t, first, "run", newSpec(dataset(t, 2)), 1)
	openSession(t, first, "other", newSpec(dataset(t, 1)), 1)
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	r.work(r.finished)
	check(t, w.Update(func(m *fleet.Member) { m.Draining = true }))
	awaitEvent(t, first, pb.EventKind_WORKER, "", "w drains; the fleet has 0 workers")
	check(t, w.Close())
	awaitEvent(t, first, pb.EventKind_WORKER, "", "w has drained and left")
	awaitEvent(t, first, pb.EventKind_SESSION, "run", "finished: 60 rows handed over in 1 epoch")
	if _, err := second.ListEvents(t.Context(), &pb.ListEventsRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("who does not lead answers %v", err)
	}
	before := eventsOf(t, first, &pb.ListEventsRequest{})
	first.stop()
	eventually(t, "the second leads", func() bool {
		_, err := second.ListEvents(t.Context(), &pb.ListEventsRequest{})
		return err == nil
	})
	awaitEvent(t, second, pb.EventKind_LEADER, "", "master "+second.address+" leads")
	_, err := second.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "run"})
	check(t, err)
	awaitEvent(t, second, pb.EventKind_SESSION, "run", "deleted")

	var words []string
	last := uint64(0)
	for i, e := range eventsOf(t, second, &pb.ListEventsRequest{}) {
		if e.GetNumber() != last+1 || e.GetUnixMs() == 0 {
			t.Errorf("event %d has number %d and time %d", i, e.GetNumber(), e.GetUnixMs())
		}
		last = e.GetNumber()
		if i < len(before) && e.GetWords() != before[i].GetWords() {
			t.Errorf("the second master has %q for %q", e.GetWords(), before[i].GetWords())
		}
		if e.GetSession() == "run" {
			words = append(words, e.GetWords())
		}
	}
	of := eventsOf(t, second, &pb.ListEventsRequest{Session: "run"})
	if !slices.EqualFunc(of, words, func(e *pb.Event, w string) bool { return e.GetWords() == w }) || len(of) != 3 ||
		!strings.HasPrefix(words[0], "opened: 2 files, ") {
		t.Errorf("of the session there is %v", of)
	}
	if newest := eventsOf(t, second, &pb.ListEventsRequest{Limit: 1}); len(newest) != 1 ||
		newest[0].GetNumber() != last {
		t.Errorf("the newest is %v, want number %d", newest, last)
	}
	if none := eventsOf(t, second, &pb.ListEventsRequest{After: last}); len(none) != 0 {
		t.Errorf("after the last there is %v", none)
	}
}

func TestEventsOfLostTrainers(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Lease: 100 * time.Millisecond}})
	openSession(t, m, "run", newSpec(dataset(t, 2)), 2)
	r := newTrainer(t, m, "run", 1, 2).mustJoin("a")
	eventually(t, "there are grants", func() bool { check(t, r.sync()); return len(r.grants) > 0 })
	e := awaitEvent(t, m, pb.EventKind_SESSION, "run", "the lease ended of rank 1")
	if e.Rank == nil || e.GetRank() != 1 {
		t.Errorf("it is of no rank: %v", e)
	}
}
