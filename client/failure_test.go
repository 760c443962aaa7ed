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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// simple starts a master and a worker over a dataset of one epoch.
func simple(fl *fake.Net, batch int64, w *fake.Worker) *fake.Master {
	w.Data, w.Cut = fake.NewDataset(5, 1, 12), 8
	fl.Worker("w1", w)
	m := &fake.Master{Data: w.Data, Spec: &pb.Spec{BatchSize: batch}, Workers: fl.Workers("w1"), Streams: 2, Run: 2}
	fl.Master("m", m)
	return m
}

func TestWorkerRefusesForGood(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		const words = "file mem://part: row group 3: column cat_7: checksum does not match"
		simple(fl, 16, &fake.Worker{
			Fault: func(context.Context, *fake.Record) error { return status.Error(codes.DataLoss, words) },
		})
		s := open(t, config(fl, "m"))
		_, err := s.Next(t.Context())
		if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), words) ||
			!strings.Contains(err.Error(), "worker w1") {
			t.Errorf("Next: %v; expected the worker's words", err)
		}
		<-s.done // nobody has to close a session that failed
	})
}

func TestAnotherWorkerReadsWhatOneCannot(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{Fault: func(_ context.Context, r *fake.Record) error {
			if r.K > 0 {
				return status.Error(codes.DataLoss, "bad disk")
			}
			return nil
		}})
		fl.Worker("w2", &fake.Worker{Data: m.Data, Cut: 3})
		m.Workers = fl.Workers("w1", "w2")
		cfg := config(fl, "m")
		var mu sync.Mutex
		var resumes []Resume
		cfg.OnResume = func(r Resume) { mu.Lock(); resumes = append(resumes, r); mu.Unlock() }
		s := open(t, cfg)
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if len(resumes) == 0 || s.Stats().Failovers != int64(len(resumes)) {
			t.Errorf("%d resumes, %d failovers; expected as many", len(resumes), s.Stats().Failovers)
		}
		for _, r := range resumes {
			if r.From != "w1" || r.To != "w2" || r.Cursor.K == 0 || r.Cursor.ShardStart() != r.Shard ||
				!strings.Contains(r.Cause.Error(), "bad disk") {
				t.Errorf("resume %+v; expected one from w1 to w2 inside a window", r)
			}
		}
	})
}

// TestWorkerOfAnotherSchema: the program says which tensors there are, whoever answers first.
func TestWorkerOfAnotherSchema(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{Without: 1})
		slow := func(ctx context.Context, _ *fake.Record) error { return sleep(ctx, time.Second) }
		fl.Worker("w2", &fake.Worker{Data: m.Data, Cut: 3, Fault: slow})
		m.Workers = fl.Workers("w1", "w2")
		s := open(t, config(fl, "m"))
		b, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		first, err := checkBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		ids := slices.Clone(first)
		b.Release()
		if asked := s.Waiting().Workers; len(asked) != 2 || asked[0].Err == nil ||
			!strings.Contains(asked[0].Err.Error(), "worker w1") ||
			!strings.Contains(asked[0].Err.Error(), "sends schema") {
			t.Errorf("the workers asked are %v", asked)
		}
		rest, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rest...)
		exactlyOnce(t, m.Data, ids)
		if n := s.Stats().RowsByWorker; len(n) != 1 || n["w2"] != int64(len(ids)) {
			t.Errorf("rows by worker: %v; expected all %d from w2", n, len(ids))
		}
	})
}

// TestStreamThatEndsTooSoon: an end inside a window is no end, though its status is OK.
func TestStreamThatEndsTooSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{Fault: func(_ context.Context, r *fake.Record) error {
			if r.K > 0 {
				return fake.ErrEnough
			}
			return nil
		}})
		fl.Worker("w2", &fake.Worker{Data: m.Data, Cut: 3})
		m.Workers = fl.Workers("w1", "w2")
		s := open(t, config(fl, "m"))
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if s.Stats().Failovers == 0 {
			t.Error("no stream went on with the other worker")
		}
	})
}

// TestWorkerLearnsTheKeysLate: a worker that does not know the master's keys yet, or any more, only has to be waited
// for.
func TestWorkerLearnsTheKeysLate(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		knows := time.Now().Add(time.Hour)
		m := simple(fl, 16, &fake.Worker{Fault: func(context.Context, *fake.Record) error {
			if time.Now().Before(knows) {
				return status.Error(codes.PermissionDenied, "signed with a key that this worker does not know")
			}
			return nil
		}})
		s := open(t, config(fl, "m"))
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
	})
}

// TestSilencesGrow for a worker that may need long for its first rows, but not while it is busy.
func TestSilencesGrow(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		const busy = 20
		want := []time.Duration{1, 2, 4, 8, 16, 16, 16}
		var got []time.Duration // in minutes
		attempts := 0
		d := &fake.Dataset{Epochs: 1, BlockShards: 1, Shards: [][]int{{8}}}
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 8, Fault: func(ctx context.Context, _ *fake.Record) error {
			switch attempts++; {
			case attempts <= busy:
				return status.Error(codes.ResourceExhausted, "busy")
			case attempts <= busy+len(want):
				begin := time.Now()
				<-ctx.Done()
				got = append(got, time.Since(begin)/time.Minute)
				return ctx.Err()
			}
			return nil
		}})
		fl.Master("m", &fake.Master{
			Data: d, Spec: &pb.Spec{BatchSize: 8}, Workers: fl.Workers("w1"), Streams: 1, Run: 1,
		})
		ids, _, err := drain(open(t, config(fl, "m")))
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, d, ids)
		if !slices.Equal(got, want) {
			t.Errorf("left after %d minutes of silence; expected %d", got, want)
		}
	})
}

func TestSilentWorkerIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{Fault: func(ctx context.Context, r *fake.Record) error {
			if r.K == 0 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		fl.Worker("w2", &fake.Worker{Data: m.Data, Cut: 3})
		m.Workers = fl.Workers("w1", "w2")
		cfg := config(fl, "m")
		cfg.HedgeAfter = time.Hour
		s := open(t, cfg)
		began := time.Now()
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if d := time.Since(began); d < time.Minute {
			t.Errorf("took %v; the worker has StreamTimeout to answer", d)
		}
		if st := s.Stats(); st.LongestStall < time.Minute || st.Stall < st.LongestStall || st.Compute != 0 {
			t.Errorf("stall %v, longest %v, compute %v; expected a stall of a minute and no compute time",
				st.Stall, st.LongestStall, st.Compute)
		}
	})
}

func TestCandidatesComeLate(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		m.Workers = nil
		s := open(t, config(fl, "m"))
		time.AfterFunc(time.Hour, func() { m.Change(func() { m.Workers = fl.Workers("w1") }) })
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
	})
}

func TestCancelledNextLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		var serves atomic.Bool
		m := simple(fl, 16, &fake.Worker{Fault: func(ctx context.Context, r *fake.Record) error {
			if r.Shard%3 == 1 && !serves.Load() {
				return status.Error(codes.ResourceExhausted, "busy")
			}
			return nil
		}})
		s := open(t, config(fl, "m"))
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
		exactlyOnce(t, m.Data, append(ids, rest...))
	})
}

func TestContextOfOpenEndsAll(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{Fault: func(ctx context.Context, _ *fake.Record) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		ctx, cancel := context.WithCancel(t.Context())
		s, err := Open(ctx, config(fl, "m"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		if _, err := s.Next(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("Next: %v; expected that of Open's context", err)
		}
		<-s.done
		if !m.Ranks[0].Left {
			t.Error("the rank did not leave")
		}
	})
}

// TestAbandon: the master hears nothing, and Close says nothing more.
func TestAbandon(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		s := open(t, config(fl, "m"))
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Abandon()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if m.Ranks[0].Left {
			t.Error("the rank has left")
		}
		if _, err := s.Next(t.Context()); !errors.Is(err, errAbandoned) {
			t.Errorf("Next: %v", err)
		}
	})
}

func TestFenced(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		old := open(t, config(fl, "m"))
		b, err := old.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ids := slices.Clone(b.Labels[0].I64)
		synctest.Wait()
		time.Sleep(2 * time.Second) // the batch is reported
		again := open(t, config(fl, "m"))
		time.Sleep(2 * time.Second)
		if _, err := old.Next(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("Next of the earlier start: %v; expected ErrFenced", err)
		}
		rest, _, err := drain(again)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, append(ids, rest...))
	})
}

func TestLeaseEnds(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		inBubble(t, func(t *testing.T, fl *fake.Net) { testLeaseEnds(t, fl, revoked) })
	}
}

// testLeaseEnds cuts the master off for longer than the lease, while the worker sends a record a second.
func testLeaseEnds(t *testing.T, fl *fake.Net, revoked bool) {
	m := simple(fl, 8, &fake.Worker{
		Fault: func(context.Context, *fake.Record) error { time.Sleep(time.Second); return nil },
	})
	m.LeaseMs = 10_000
	var cut atomic.Bool
	m.Intercept = func(req proto.Message) error {
		if _, sync := req.(*pb.SyncRequest); sync && cut.Load() {
			return status.Error(codes.Unavailable, "etcd is away")
		}
		return nil
	}
	s := open(t, config(fl, "m"))
	start := time.Now()
	time.AfterFunc(5*time.Second, func() { cut.Store(true) })
	time.AfterFunc(60*time.Second, func() {
		m.Change(func() {
			if r := m.Ranks[0]; revoked {
				consumed := position.SetFromProto(s.State().GetConsumed())
				m.Returned, r.Held, r.Consumed = m.Returned.Union(r.Held.Subtract(consumed)), nil, consumed
				m.Frozen = true
			}
		})
		cut.Store(false)
	})
	time.AfterFunc(70*time.Second, func() { m.Change(func() { m.Frozen = false }) })
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
	exactlyOnce(t, m.Data, ids)
	checkMaster(t, m)
}

// A master that takes a Sync and never answers it costs no lease: the client gives up in time to ask again.
func TestSilentMasterWithinAShortLease(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 8, &fake.Worker{
			Fault: func(context.Context, *fake.Record) error { time.Sleep(time.Second); return nil },
		})
		m.LeaseMs = 4000
		var silent atomic.Bool
		over := make(chan struct{})
		defer close(over)
		m.Intercept = func(req proto.Message) error {
			if _, sync := req.(*pb.SyncRequest); sync && silent.CompareAndSwap(true, false) {
				<-over
			}
			return nil
		}
		s := open(t, config(fl, "m"))
		time.AfterFunc(3*time.Second, func() { silent.Store(true) })
		var ids []int64
		last := time.Now()
		for b, err := range s.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(last); waited > 4*time.Second {
				t.Errorf("no batch for %v", waited)
			}
			last = time.Now()
			ids = append(ids, slices.Clone(b.Labels[0].I64)...)
			b.Release()
		}
		if silent.Load() {
			t.Error("no Sync met a silent master")
		}
		exactlyOnce(t, m.Data, ids)
	})
}

func TestLeaderIsFollowed(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{
			Fault: func(context.Context, *fake.Record) error { time.Sleep(time.Second); return nil },
		})
		stopSecond := fl.Follower("second", "m")
		s := open(t, config(fl, "nobody", "second"))
		// The leader changes its address; the old one becomes a follower.
		stopSecond()
		fl.Master("second", m)
		fl.Follower("m", "second")
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
	})
}

func TestOpenWaitsForAMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		time.AfterFunc(time.Minute, func() { simple(fl, 16, &fake.Worker{}) })
		s := open(t, config(fl, "m"))
		if _, err := s.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := Open(ctx, config(fl, "m")); err == nil || !strings.Contains(err.Error(), "master m") {
			t.Errorf("Open without a master: %v", err)
		}
	})
}

const mistakes = "transforms[3].in: no feature cat_27; nearest: cat_17\nfeatures[0]: no layout"

func TestMistakesInTheSpec(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		fl.Master("m", &fake.Master{
			Intercept: func(proto.Message) error { return status.Error(codes.InvalidArgument, mistakes) },
		})
		_, err := Open(t.Context(), config(fl, "m"))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), mistakes) {
			t.Errorf("Open: %v; expected all mistakes", err)
		}
	})
}

func TestConfigIsValidated(t *testing.T) {
	_, err := Open(t.Context(), Config{
		Rank: 3, WorldSize: 2, Budget: -1, SyncEvery: -1, StreamTimeout: -1, HedgeAfter: -1,
		Restore: []*pb.State{{Session: strings.Repeat("x", maxRestored)}},
	})
	for _, want := range []string{
		"have each bring its own", "Masters", "Session", "Rank 3", "Budget", "SyncEvery", "StreamTimeout", "HedgeAfter",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open with a wrong config: %v; expected a word on %s", err, want)
		}
	}
}

func TestCloseWithoutWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		m.Workers = nil
		s := open(t, config(fl, "m"))
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWordsOfWorkersAreText: no Sync can be sent with others.
func TestWordsOfWorkersAreText(t *testing.T) {
	err := &workerError{name: "w", address: "a:1", err: status.Error(codes.DataLoss, "row 7: \xff")}
	if got, want := err.words(), "worker w at a:1: row 7: \uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLastWindowIsRead: a rank that is asked for all that it holds, again and again, as by another one that has nothing
// left, reads it to its end though that takes longer.
func TestLastWindowIsRead(t *testing.T) {
	d := fake.NewDataset(3, 1, 4)
	for _, spec := range []*pb.Spec{
		{LastBatch: pb.LastBatch_UNEVEN}, {LastBatch: pb.LastBatch_PAD, Filter: "label > 0"},
	} {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			fl.Worker("w", &fake.Worker{Data: d, Cut: 7, Fault: func(ctx context.Context, r *fake.Record) error {
				if r.K > 0 {
					return nil
				}
				return sleep(ctx, 2*time.Second)
			}})
			spec.BatchSize, spec.Epochs = 16, 1
			m := &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w"), Streams: 3, Run: 2}
			fl.Master("m", m)
			s := open(t, config(fl, "m"))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			go func() {
				for sleep(ctx, 300*time.Millisecond) == nil {
					m.Change(func() { m.Release = m.Ranks[0].Held })
				}
			}()
			var ids []int64
			for b, err := range s.Batches(ctx) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, b.Labels[0].I64[:b.Valid]...)
				b.Release()
			}
			exactlyOnce(t, d, ids)
			checkMaster(t, m)
		})
	}
}
