package master_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master"
)

// The leader says why a session's trainers wait, to who asks and to the trainers.
func TestObserve(t *testing.T) {
	endpoints := etcd(t, "").Endpoints()
	first := start(t, settings{
		endpoints: endpoints,
		Config:    master.Config{Fleet: fleet.Config{Self: fleet.Member{Name: "m1"}}},
	})
	second := start(t, settings{
		endpoints: endpoints,
		Config:    master.Config{Fleet: fleet.Config{Self: fleet.Member{Name: "m2"}, Join: []string{first.gossip}}},
	})
	openSession(t, first, "run", newSpec(dataset(t, 1)), 1)
	addWorker(t, first, fleet.Member{Name: "w", Address: "10.0.0.1:1", Slots: 8})
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	counters, began := &pb.WorkerCounters{}, time.Now()
	eventually(t, "the session is short of workers", func() bool {
		open := 8 * time.Since(began).Nanoseconds() // in all of its slots
		counters.Rows, counters.OpenNs, counters.DecodeNs, counters.CpuNs = counters.GetRows()+1, open, open, open
		_, err := first.SyncWorker(t.Context(), &pb.WorkerReport{
			Name: "w", Streams: 8, Slots: 8, Cpus: 2, Counters: counters, Sessions: []*pb.SessionCounters{
				{Session: "run", Counters: counters},
			},
		})
		check(t, err)
		r.counters.Batches, r.counters.StallNs = r.counters.GetBatches()+2, r.counters.GetStallNs()+1e12
		req := r.request()
		req.Pace = &pb.Pace{StepNs: 1e8, Rows: 100, Steps: 9}
		check(t, r.send(req))
		o, err := first.Observe(t.Context(), &pb.ObserveRequest{Session: "run", Workers: true})
		check(t, err)
		if len(o.GetSessions()) == 0 {
			return false // nothing was measured since it opened
		}
		s := o.GetSessions()[0]
		return s.GetBottleneck() == pb.Bottleneck_WORKERS && s.GetStage() == "decode" && s.GetDemand() == 1000 &&
			s.GetNeeded() > 0 &&
			s.GetTrainers()[0].GetPresent() && s.GetProgress().GetBlocks() > 0 &&
			s.GetState() == pb.SessionState_RUNNING &&
			len(o.GetWorkers()) == 1 && len(o.GetPoints()) > 0 &&
			strings.Contains(o.GetVerdict(), "workers are the bottleneck") &&
			r.last.GetCause().GetBottleneck() == pb.Bottleneck_WORKERS &&
			strings.Contains(o.GetVerdict(), r.last.GetCause().GetWords())
	})
	if _, err := first.Observe(t.Context(), &pb.ObserveRequest{Session: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("got %v, want NotFound", err)
	}
	if _, err := second.Observe(t.Context(), &pb.ObserveRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v of a master that does not lead, want Unavailable", err)
	}
	first.stop()
	eventually(t, "the next leader begins anew", func() bool {
		o, err := second.Observe(t.Context(), &pb.ObserveRequest{})
		return err == nil && o.GetBottleneck() <= pb.Bottleneck_NONE && o.GetDecision() == nil
	})
}

// A session that was opened just now is observed, and one that was deleted just now is not.
func TestObserveAtOnce(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 1)), 2)
	o, err := m.Observe(t.Context(), &pb.ObserveRequest{})
	check(t, err)
	if s := o.GetSessions(); len(s) != 1 || s[0].GetWorldSize() != 2 ||
		!strings.Contains(o.GetVerdict(), "none has joined") {
		t.Errorf("opened: %v", o)
	}
	_, err = m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "run"})
	check(t, err)
	if o, err = m.Observe(t.Context(), &pb.ObserveRequest{}); err != nil || len(o.GetSessions()) > 0 ||
		strings.Contains(o.GetVerdict(), "run") {
		t.Errorf("deleted: %v, %v", err, o)
	}
}

// All that shows a session's state shows the same.
func TestStatesAgree(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 3)), 1)
	shows := func(want pb.SessionState, says string) {
		t.Helper()
		eventually(t, want.String(), func() bool {
			one, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
			check(t, err)
			list, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{})
			check(t, err)
			seen, err := m.Observe(t.Context(), &pb.ObserveRequest{Session: "run"})
			check(t, err)
			all, err := m.Observe(t.Context(), &pb.ObserveRequest{})
			check(t, err)
			return one.GetState() == want && one.GetStateSinceUnix() > 0 && list.GetSessions()[0].GetState() == want &&
				seen.GetSessions()[0].GetState() == want && strings.Contains(seen.GetVerdict(), says) &&
				len(all.GetSessions()) == 1 && all.GetSessions()[0].GetState() == want &&
				strings.Contains(all.GetVerdict(), says)
		})
	}
	shows(pb.SessionState_WAITING, "none has joined")
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	check(t, r.sync())
	shows(pb.SessionState_RUNNING, "measured")
	req := r.request()
	req.Leave = true
	check(t, r.send(req))
	shows(pb.SessionState_ABANDONED, "it has no trainer any more")
	again := newTrainer(t, m, "run", 0, 1).mustJoin("b")
	check(t, again.sync())
	shows(pb.SessionState_RUNNING, "measured")
}
