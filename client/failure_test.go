package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// simple starts a master and a worker over a dataset of one epoch.
func simple(fl *fleet, batch int64, w *worker) *master {
	w.data, w.cut = newDataset(5, 1, 12), 8
	fl.worker("w1", w)
	m := &master{data: w.data, spec: &pb.Spec{BatchSize: batch}, workers: workersAt("w1"), streams: 2, run: 2}
	fl.master("m", m)
	return m
}

func TestWorkerRefusesForGood(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		const words = "file mem://part: row group 3: column cat_7: checksum does not match"
		simple(fl, 16, &worker{fault: func(context.Context, position.Position) error { return status.Error(codes.DataLoss, words) }})
		s := open(t, fl.config("m"))
		_, err := s.Next(t.Context())
		if status.Code(err) != codes.DataLoss || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "worker w1") {
			t.Errorf("Next: %v; expected the worker's words", err)
		}
		<-s.done // nobody has to close a session that failed
	})
}

func TestAnotherWorkerReadsWhatOneCannot(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{fault: func(_ context.Context, at position.Position) error {
			if at.K > 0 {
				return status.Error(codes.DataLoss, "bad disk")
			}
			return nil
		}})
		fl.worker("w2", &worker{data: m.data, cut: 3})
		m.workers = workersAt("w1", "w2")
		cfg := fl.config("m")
		var mu sync.Mutex
		var resumes []Resume
		cfg.OnResume = func(r Resume) { mu.Lock(); resumes = append(resumes, r); mu.Unlock() }
		s := open(t, cfg)
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, ids)
		if len(resumes) == 0 || s.Stats().Failovers != int64(len(resumes)) {
			t.Errorf("%d resumes, %d failovers; expected as many", len(resumes), s.Stats().Failovers)
		}
		for _, r := range resumes {
			if r.From != "w1" || r.To != "w2" || r.Cursor.K == 0 || r.Cursor.ShardStart() != r.Shard || !strings.Contains(r.Cause.Error(), "bad disk") {
				t.Errorf("resume %+v; expected one from w1 to w2 inside a window", r)
			}
		}
	})
}

// TestStreamThatEndsTooSoon: an end inside a window is no end, though its status is OK.
func TestStreamThatEndsTooSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{fault: func(_ context.Context, at position.Position) error {
			if at.K > 0 {
				return errEnough
			}
			return nil
		}})
		fl.worker("w2", &worker{data: m.data, cut: 3})
		m.workers = workersAt("w1", "w2")
		s := open(t, fl.config("m"))
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, ids)
		if s.Stats().Failovers == 0 {
			t.Error("no stream went on with the other worker")
		}
	})
}

// TestWorkerLearnsTheKeysLate: a worker that does not know the master's keys yet, or any more, only has to be waited for.
func TestWorkerLearnsTheKeysLate(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		knows := time.Now().Add(time.Hour)
		m := simple(fl, 16, &worker{fault: func(context.Context, position.Position) error {
			if time.Now().Before(knows) {
				return status.Error(codes.PermissionDenied, "signed with a key that this worker does not know")
			}
			return nil
		}})
		s := open(t, fl.config("m"))
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, ids)
	})
}

func TestSilentWorkerIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{fault: func(ctx context.Context, at position.Position) error {
			if at.K == 0 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		fl.worker("w2", &worker{data: m.data, cut: 3})
		m.workers = workersAt("w1", "w2")
		s := open(t, fl.config("m"))
		began := time.Now()
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, ids)
		if d := time.Since(began); d < time.Minute {
			t.Errorf("took %v; the worker has StreamTimeout to answer", d)
		}
		if st := s.Stats(); st.LongestStall < time.Minute || st.Stall < st.LongestStall || st.Compute != 0 {
			t.Errorf("stall %v, longest %v, compute %v; expected a stall of a minute and no compute time", st.Stall, st.LongestStall, st.Compute)
		}
	})
}

func TestCandidatesComeLate(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{})
		m.workers = nil
		s := open(t, fl.config("m"))
		time.AfterFunc(time.Hour, func() { m.change(func() { m.workers = workersAt("w1") }) })
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, ids)
	})
}

func TestCancelledNextLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		var serves atomic.Bool
		m := simple(fl, 16, &worker{fault: func(ctx context.Context, at position.Position) error {
			if at.Shard%3 == 1 && !serves.Load() {
				return status.Error(codes.ResourceExhausted, "busy")
			}
			return nil
		}})
		s := open(t, fl.config("m"))
		var ids []int64
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			b, err := s.Next(ctx)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, slices.Clone(b.Labels[0].I64)...)
			b.Release()
		}
		serves.Store(true)
		rest, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, append(ids, rest...))
	})
}

func TestContextOfOpenEndsAll(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{fault: func(ctx context.Context, _ position.Position) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		s, err := Open(ctx, fl.config("m"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		if _, err := s.Next(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("Next: %v; expected that of Open's context", err)
		}
		<-s.done
		if !m.ranks[0].left {
			t.Error("the rank did not leave")
		}
	})
}

func TestFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{})
		old := open(t, fl.config("m"))
		b, err := old.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids := slices.Clone(b.Labels[0].I64)
		synctest.Wait()
		time.Sleep(2 * time.Second) // the batch is reported
		again := open(t, fl.config("m"))
		time.Sleep(2 * time.Second)
		if _, err := old.Next(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("Next of the earlier start: %v; expected ErrFenced", err)
		}
		rest, _, err := drain(again)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, append(ids, rest...))
	})
}

func TestLeaseEnds(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		inBubble(t, func(t *testing.T, fl *fleet) { testLeaseEnds(t, fl, revoked) })
	}
}

// testLeaseEnds cuts the master off for longer than the lease, while the worker sends a record a second.
func testLeaseEnds(t *testing.T, fl *fleet, revoked bool) {
	m := simple(fl, 8, &worker{fault: func(context.Context, position.Position) error { time.Sleep(time.Second); return nil }})
	m.leaseMs = 10_000
	var cut atomic.Bool
	m.intercept = func(*pb.SyncRequest) error {
		if cut.Load() {
			return status.Error(codes.Unavailable, "etcd is away")
		}
		return nil
	}
	s := open(t, fl.config("m"))
	start := time.Now()
	time.AfterFunc(5*time.Second, func() { cut.Store(true) })
	time.AfterFunc(60*time.Second, func() {
		m.change(func() {
			if r := m.ranks[0]; revoked {
				m.returned, r.held = m.returned.Union(r.held.Subtract(position.SetFromProto(s.State().GetConsumed()))), nil
				r.consumed = position.SetFromProto(s.State().GetConsumed())
				m.frozen = true
			}
		})
		cut.Store(false)
	})
	time.AfterFunc(70*time.Second, func() { m.change(func() { m.frozen = false }) })
	var ids []int64
	during := 0
	for b, err := range s.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		at := time.Since(start)
		if at > 16*time.Second && at < 60*time.Second {
			t.Errorf("a batch was handed over after %v, when the lease had ended", at)
		}
		if at > 6*time.Second && at < 16*time.Second {
			during++
		}
		ids = append(ids, slices.Clone(b.Labels[0].I64)...)
		b.Release()
	}
	if during == 0 {
		t.Error("no batch while the lease ran on without a master")
	}
	exactlyOnce(t, m.data, ids)
	checkMaster(t, m)
}

// follower is a master that does not lead.
type follower struct {
	pb.UnimplementedMasterServer
	leader string
}

func (f *follower) refuse() error {
	st, err := status.New(codes.Unavailable, "not the leader").WithDetails(&pb.NotLeader{Leader: f.leader})
	if err != nil {
		return err
	}
	return st.Err()
}

func (f *follower) Open(context.Context, *pb.OpenRequest) (*pb.Session, error) {
	return nil, f.refuse()
}

func (f *follower) Sync(context.Context, *pb.SyncRequest) (*pb.SyncReply, error) {
	return nil, f.refuse()
}

func TestLeaderIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{fault: func(context.Context, position.Position) error { time.Sleep(time.Second); return nil }})
		stopSecond := fl.serve("second", func(s *grpc.Server) { pb.RegisterMasterServer(s, &follower{leader: "m"}) })
		s := open(t, fl.config("nobody", "second"))
		// The leader changes its address; the old one becomes a follower.
		stopSecond()
		fl.serve("second", func(s *grpc.Server) { pb.RegisterMasterServer(s, m) })
		fl.serve("m", func(s *grpc.Server) { pb.RegisterMasterServer(s, &follower{leader: "second"}) })
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.data, ids)
	})
}

func TestOpenWaitsForAMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		time.AfterFunc(time.Minute, func() { simple(fl, 16, &worker{}) })
		s := open(t, fl.config("m"))
		if _, err := s.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
	inBubble(t, func(t *testing.T, fl *fleet) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Open(ctx, fl.config("m")); err == nil || !strings.Contains(err.Error(), "master m") {
			t.Errorf("Open without a master: %v", err)
		}
	})
}

// refusing is a master that finds mistakes in every spec.
type refusing struct{ pb.UnimplementedMasterServer }

const mistakes = "transforms[3].in: no feature cat_27; nearest: cat_17\nfeatures[0]: no layout"

func (refusing) Open(context.Context, *pb.OpenRequest) (*pb.Session, error) {
	return nil, status.Error(codes.InvalidArgument, mistakes)
}

func TestMistakesInTheSpec(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		fl.serve("m", func(s *grpc.Server) { pb.RegisterMasterServer(s, refusing{}) })
		_, err := Open(t.Context(), fl.config("m"))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), mistakes) {
			t.Errorf("Open: %v; expected all mistakes", err)
		}
	})
}

func TestConfigIsValidated(t *testing.T) {
	_, err := Open(t.Context(), Config{Rank: 3, WorldSize: 2, Budget: -1, SyncEvery: -1, StreamTimeout: -1})
	for _, want := range []string{"Masters", "Dial", "Session", "Rank 3", "Budget", "SyncEvery", "StreamTimeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open with a wrong config: %v; expected a word on %s", err, want)
		}
	}
}

func TestCloseWithoutWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fleet) {
		m := simple(fl, 16, &worker{})
		m.workers = nil
		s := open(t, fl.config("m"))
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
