package master_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/master"
)

// What a spec leaves out is written out when its session is opened: all ranks, and those who come later, find it so.
func TestOpenSettlesTheSpec(t *testing.T) {
	m := single(t)
	dir := dataset(t, 2)
	with := func(change func(*pb.Spec)) *pb.Spec {
		s := newSpec(dir)
		change(s)
		return s
	}
	ask := func(id string, s *pb.Spec, world uint32, saved pb.LastBatch) (*pb.Session, error) {
		return m.Open(t.Context(), &pb.OpenRequest{
			Session: id, Spec: s, WorldSize: world, Defaults: 1,
			SavedLastBatch: saved,
		})
	}
	for _, tc := range []struct {
		id        string
		spec      *pb.Spec
		world     uint32
		saved     pb.LastBatch
		epochs    uint32
		last      pb.LastBatch
		byDefault bool
	}{
		{"one", newSpec(dir), 1, 0, spec.Unlimited, pb.LastBatch_UNEVEN, true},
		{"two", newSpec(dir), 2, 0, spec.Unlimited, pb.LastBatch_DROP, true},
		{"two", newSpec(dir), 1, 0, spec.Unlimited, pb.LastBatch_DROP, true}, // it exists
		{"two", newSpec(dir), 2, pb.LastBatch_DROP, spec.Unlimited, pb.LastBatch_DROP, true},
		{
			"in order", with(func(s *pb.Spec) { s.Order = pb.Order_DETERMINISTIC }), 2, 0, spec.Unlimited,
			pb.LastBatch_DROP, true,
		},
		{"restored", newSpec(dir), 2, pb.LastBatch_UNEVEN, spec.Unlimited, pb.LastBatch_UNEVEN, false},
		{
			"named", with(func(s *pb.Spec) { s.Epochs, s.LastBatch = 3, pb.LastBatch_PAD }), 2, pb.LastBatch_DROP, 3,
			pb.LastBatch_PAD, false,
		},
		{"named", newSpec(dir), 2, 0, 3, pb.LastBatch_PAD, false},
	} {
		got, err := ask(tc.id, tc.spec, tc.world, tc.saved)
		check(t, err)
		if s := got.GetSpec(); s.GetEpochs() != tc.epochs || s.GetLastBatch() != tc.last ||
			got.GetDefaultLastBatch() != tc.byDefault {
			t.Errorf("%s: %d epochs, %v, by default %v; want %d, %v, %v",
				tc.id, s.GetEpochs(), s.GetLastBatch(), got.GetDefaultLastBatch(), tc.epochs, tc.last, tc.byDefault)
		}
	}
	for _, tc := range []struct {
		id    string
		spec  *pb.Spec
		saved pb.LastBatch
		code  codes.Code
		says  string
	}{
		{
			"two", with(func(s *pb.Spec) { s.LastBatch = pb.LastBatch_UNEVEN }), 0, codes.AlreadyExists,
			"last_batch: drop and uneven",
		},
		{"two", with(func(s *pb.Spec) { s.Epochs = 2 }), 0, codes.AlreadyExists, "epochs: no limit and 2"},
		{"two", newSpec(dir), pb.LastBatch_UNEVEN, codes.AlreadyExists, "last_batch: drop and uneven"},
		{
			"new", with(func(s *pb.Spec) { s.OnError = &pb.OnError{Skip: 1} }), 0, codes.InvalidArgument,
			"last_batch: found nothing, with on_error: skip and 2 ranks",
		},
	} {
		if _, err := ask(tc.id, tc.spec, 2, tc.saved); status.Code(err) != tc.code ||
			!strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %v with %q", tc.id, err, tc.code, tc.says)
		}
	}
	// Clients of earlier releases mean what their specs meant then, and what they opened, which says nothing of it,
	// stays so.
	old := openSession(t, m, "old", newSpec(dir), 2)
	if s := old.GetSpec(); spec.Epochs(s) != 1 || s.GetLastBatch() != pb.LastBatch_UNEVEN || old.GetDefaultLastBatch() {
		t.Errorf("a client of an earlier release opened %d epochs, %v, by default %v; want 1, UNEVEN, false",
			spec.Epochs(s), s.GetLastBatch(), old.GetDefaultLastBatch())
	}
	again, err := ask("old", newSpec(dir), 2, 0)
	check(t, err)
	if again.GetSpec().GetLastBatch() != pb.LastBatch_UNEVEN || spec.Epochs(again.GetSpec()) != 1 {
		t.Errorf("who attaches to it finds %v", again.GetSpec())
	}
}

// A session without a limit goes on from epoch to epoch, and is never finished.
func TestEpochsWithoutALimit(t *testing.T) {
	m := single(t)
	_, err := m.Open(t.Context(), &pb.OpenRequest{
		Session: "run", Spec: newSpec(dataset(t, 1)), WorldSize: 1,
		Defaults: 1,
	})
	check(t, err)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	eventually(t, "three epochs are closed", func() bool {
		r.consume(1 << 20)
		req := r.request()
		req.Steps = &pb.RankSteps{Epoch: r.epoch}
		check(t, r.send(req))
		return r.last.GetClosedEpochs() == 3
	})
	once(t, 1, 3, r)
	view, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
	check(t, err)
	if r.finished() || view.GetState() != pb.SessionState_RUNNING || view.GetProgress().GetEpoch() != 3 {
		t.Errorf("finished: %v, state %v, epoch %d; want it to run in epoch 3", r.finished(), view.GetState(),
			view.GetProgress().GetEpoch())
	}
}

// A session without a limit that all have left between two epochs is closed, so that no leader loads it, and goes on
// with the next epoch when a rank joins it.
func TestASessionBetweenEpochsIsClosed(t *testing.T) {
	cfg := master.Config{Lease: 2 * time.Second, CloseAfter: time.Nanosecond}
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: cfg})
	_, err := m.Open(t.Context(), &pb.OpenRequest{
		Session: "run", Spec: newSpec(dataset(t, 1)), WorldSize: 1,
		Defaults: 1,
	})
	check(t, err)
	read := func(nonce string, until uint32) *trainer {
		r := newTrainer(t, m, "run", 0, 1).mustJoin(nonce)
		eventually(t, "an epoch is closed", func() bool {
			if r.epoch < until {
				r.consume(1 << 20)
			}
			req := r.request()
			req.Steps = &pb.RankSteps{Epoch: r.epoch}
			check(t, r.send(req))
			return r.last.GetClosedEpochs() == until
		})
		leaveAll(t, m, "run", r)
		return r
	}
	first := read("a", 1)
	var closed *pb.Session
	eventually(t, "the session is closed", func() bool {
		closed, err = m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
		check(t, err)
		return closed.GetClosedUnix() > 0
	})
	if closed.GetState() != pb.SessionState_ABANDONED || closed.GetProgress().GetEpoch() != 1 {
		t.Errorf("closed, it is %v in epoch %d; want it abandoned, in epoch 1",
			closed.GetState(), closed.GetProgress().GetEpoch())
	}
	_, err = m.Open(t.Context(), &pb.OpenRequest{Session: "run", Spec: closed.GetSpec(), WorldSize: 1, Defaults: 1})
	check(t, err)
	second := read("b", 2)
	j := second.joined
	if j.GetKind() != pb.JoinKind_FRESH || j.GetClosedEpochs() != 1 ||
		j.GetSession().GetRestoredFrom().GetEpoch() != 1 || j.GetSession().GetClosedUnix() != 0 {
		t.Errorf("who comes back joined as %v", j)
	}
	once(t, 1, 2, first, second)
}
