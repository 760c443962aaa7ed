package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// hang never sends a record.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// pause sends a record late.
func pause(ctx context.Context, d time.Duration) error { return sleep(ctx, d) }

// second adds a worker to those of simple.
func second(fl *fake.Net, m *fake.Master, fault func(context.Context, *fake.Record) error) {
	fl.Worker("w2", &fake.Worker{Data: m.Data, Cut: 5, Fault: fault})
	m.Workers = fl.Workers("w1", "w2")
}

// resumes keeps what OnResume tells.
type resumes struct {
	mu  sync.Mutex
	all []Resume
}

func (r *resumes) add(x Resume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, x)
}

func TestLateStreamIsHedged(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		var hung, ended atomic.Int64
		m := simple(fl, 16, &fake.Worker{Fault: func(ctx context.Context, r *fake.Record) error {
			if r.Shard != 1 || r.K == 0 {
				return nil
			}
			hung.Add(1)
			defer ended.Add(1)
			return hang(ctx)
		}})
		second(fl, m, nil)
		var seen resumes
		cfg := config(fl, "m")
		cfg.OnResume = seen.add
		s := open(t, cfg)
		began := time.Now()
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
		if hung.Load() == 0 || ended.Load() != hung.Load() {
			t.Errorf("%d streams hung, %d were cancelled", hung.Load(), ended.Load())
		}
		st := s.Stats()
		if st.Hedges == 0 || st.Failovers != st.Hedges || int(st.Hedges) != len(seen.all) {
			t.Errorf("%d hedges, %d failovers, %d resumes; expected as many", st.Hedges, st.Failovers, len(seen.all))
		}
		for _, r := range seen.all {
			if r.From != "w1" || r.To != "w2" || r.Pause < cfg.withDefaults().HedgeAfter || r.Pause > 5*time.Second ||
				!errors.Is(r.Cause, errLost) {
				t.Errorf("resume %+v", r)
			}
		}
		if c := m.Ranks[0].Counters; c.GetHedges() != st.Hedges {
			t.Errorf("the master knows of %d hedges, of %d", c.GetHedges(), st.Hedges)
		}
	})
}

// TestLateWorkerMayWin: the second stream is cancelled when the first one brings rows.
func TestLateWorkerMayWin(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{Fault: func(ctx context.Context, r *fake.Record) error {
			if r.Shard == 1 && r.K > 0 {
				return pause(ctx, time.Second)
			}
			return nil
		}})
		var cancelled atomic.Int64
		second(fl, m, func(ctx context.Context, _ *fake.Record) error {
			defer cancelled.Add(1)
			return hang(ctx)
		})
		s := open(t, config(fl, "m"))
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if st := s.Stats(); st.Hedges == 0 || st.Failovers != 0 || cancelled.Load() == 0 {
			t.Errorf("%d hedges, %d failovers, %d second streams ended", st.Hedges, st.Failovers, cancelled.Load())
		}
	})
}

// TestSecondIsLateItself: the second stream, which has won, is late later and hedged in its turn, but wins again.
func TestSecondIsLateItself(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		at := func(r *fake.Record) bool { return r.Block == 0 && r.Shard == 1 }
		m := simple(fl, 16, &fake.Worker{Fault: func(ctx context.Context, r *fake.Record) error {
			if at(r) && r.K > 0 {
				return hang(ctx)
			}
			return nil
		}})
		m.Data.Shards[m.Data.Index(position.Position{Shard: 1})] = []int{40}
		second(fl, m, func(ctx context.Context, r *fake.Record) error {
			if at(r) && r.Before == 1 {
				return pause(ctx, 3*time.Second)
			}
			return nil
		})
		fl.Worker("w3", &fake.Worker{
			Data: m.Data, Cut: 5, Fault: func(ctx context.Context, _ *fake.Record) error { return hang(ctx) },
		})
		m.Workers = fl.Workers("w1", "w2", "w3")
		var seen resumes
		cfg := config(fl, "m")
		cfg.OnResume = seen.add
		s := open(t, cfg)
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if st := s.Stats(); st.Hedges != 2 || st.Failovers != 1 || len(seen.all) != 1 {
			t.Fatalf("%d hedges, %d failovers, resumes %+v; expected 2, and 1 from w1 to w2",
				st.Hedges, st.Failovers, seen.all)
		}
		if r := seen.all[0]; r.From != "w1" || r.To != "w2" || r.Cursor.K != 8 {
			t.Errorf("resume %+v; expected one at row 8, after what w1 sent", r)
		}
	})
}

func TestNotHedged(t *testing.T) {
	for name, c := range map[string]struct {
		fault   func(context.Context, *fake.Record) error
		loop    time.Duration // between batches
		budget  int64
		workers int
	}{
		"all workers are slow": {
			fault: func(ctx context.Context, _ *fake.Record) error { return pause(ctx, 3*time.Second) }, workers: 2,
		},
		"the training loop is slow": {loop: 10 * time.Second, budget: 1, workers: 2},
		"nobody else is there": {fault: func(ctx context.Context, r *fake.Record) error {
			return pause(ctx, time.Duration(r.Before)*10*time.Second)
		}, workers: 1},
		"nothing is known of their pace": {
			fault: func(ctx context.Context, r *fake.Record) error { return pause(ctx, 20*time.Second) }, workers: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *fake.Net) {
				m := simple(fl, 16, &fake.Worker{Fault: c.fault})
				if c.workers > 1 {
					second(fl, m, nil)
				}
				cfg := config(fl, "m")
				cfg.Budget = c.budget
				s := open(t, cfg)
				for b, err := range s.Batches(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					b.Release()
					time.Sleep(c.loop)
				}
				if n := s.Stats().Hedges; n > 0 {
					t.Errorf("%d hedges", n)
				}
			})
		})
	}
}

// TestFewAreHedgedAtOnce has all streams of a worker hang at once, and counts those of the other.
func TestFewAreHedgedAtOnce(t *testing.T) {
	for streams, limit := range map[uint32]int64{4: 1, 60: 3} {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			d := fake.NewDataset(1, 1, 80)
			for i := range d.Shards {
				d.Shards[i] = []int{40}
			}
			fl.Worker("w1", &fake.Worker{Data: d, Cut: 8, Fault: func(ctx context.Context, r *fake.Record) error {
				if r.K > 0 {
					return hang(ctx)
				}
				return nil
			}})
			var now, peak atomic.Int64
			fl.Worker("w2", &fake.Worker{Data: d, Cut: 8, Fault: func(ctx context.Context, r *fake.Record) error {
				if r.Before > 0 || r.K == 0 {
					return nil // it has won, or was not second
				}
				peak.Store(max(peak.Load(), now.Add(1)))
				defer now.Add(-1)
				return pause(ctx, time.Second)
			}})
			m := &fake.Master{
				Data: d, Spec: config(fl).Spec, Workers: fl.Workers("w1", "w2"), Streams: streams, Run: 80,
			}
			fl.Master("m", m)
			s := open(t, config(fl, "m"))
			ids, _, err := drain(s)
			if err != nil {
				t.Fatal(err)
			}
			exactlyOnce(t, d, ids)
			if peak.Load() != limit {
				t.Errorf("%d of %d streams were hedged at once; expected %d", peak.Load(), streams, limit)
			}
		})
	}
}

// TestSecondIsBusy: whom the late stream is hedged with is asked again, when nobody else is left.
func TestSecondIsBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{Fault: func(ctx context.Context, r *fake.Record) error {
			if r.K > 0 {
				return hang(ctx)
			}
			return nil
		}})
		free := time.Now().Add(20 * time.Second)
		second(fl, m, func(context.Context, *fake.Record) error {
			if time.Now().Before(free) {
				return status.Error(codes.ResourceExhausted, "busy")
			}
			return nil
		})
		s := open(t, config(fl, "m"))
		began := time.Now()
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, m.Data, ids)
		if d := time.Since(began); d > 40*time.Second {
			t.Errorf("took %v, with a worker that was free after 20 s", d)
		}
	})
}

// TestRacesLoseNothing has workers pause, hang and break at random, so that streams overtake each other.
func TestRacesLoseNothing(t *testing.T) {
	var hedges, failovers atomic.Int64
	for seed := range uint64(6) {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 3))
			fault := func(ctx context.Context, _ *fake.Record) error {
				mu.Lock()
				n, d := r.IntN(40), time.Duration(r.IntN(2000))*time.Millisecond
				mu.Unlock()
				switch {
				case n == 0:
					return hang(ctx)
				case n < 6:
					return pause(ctx, d)
				case n < 8:
					return status.Error(codes.Unavailable, "cut")
				}
				return nil
			}
			d := fake.NewDataset(seed, 2, 25)
			for name, cut := range map[string]int{"w1": 5, "w2": 9, "w3": 2} {
				fl.Worker(name, &fake.Worker{Data: d, Cut: cut, Fault: fault})
			}
			m := &fake.Master{
				Data: d, Spec: &pb.Spec{BatchSize: 16, Epochs: 2}, Workers: fl.Workers("w1", "w2", "w3"), Streams: 4,
				Run: 4,
			}
			fl.Master("m", m)
			s := open(t, config(fl, "m"))
			ids, _, err := drain(s)
			if err != nil {
				t.Fatal(err)
			}
			exactlyOnce(t, d, ids)
			checkMaster(t, m)
			st := s.Stats()
			hedges.Add(st.Hedges)
			failovers.Add(st.Failovers)
		})
	}
	if hedges.Load() < 10 || failovers.Load() < hedges.Load()/4 {
		t.Errorf("%d hedges, %d failovers: the test tests little", hedges.Load(), failovers.Load())
	}
}

func TestNoWorkerAtTheAddress(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		fl.Master("other", &fake.Master{}) // knows no Flight
		m.Workers = fl.Workers("other")
		s := open(t, config(fl, "m"))
		if _, err := s.Next(t.Context()); !errors.Is(err, ErrNoWorker) {
			t.Errorf("Next: %v; expected ErrNoWorker", err)
		}
	})
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		simple(fl, 16, &fake.Worker{Fault: func(context.Context, *fake.Record) error {
			return status.Error(codes.Unimplemented, lacks+": no op nonsense")
		}})
		s := open(t, config(fl, "m"))
		if _, err := s.Next(t.Context()); errors.Is(err, ErrNoWorker) || status.Code(err) != codes.Unimplemented {
			t.Errorf("Next: %v; expected the worker's words", err)
		}
	})
}
