package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

func TestWaitingForOtherRanks(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m := simple(fl, 16, &fake.Worker{})
		m.Frozen = true
		s := open(t, config(fl, "m"))
		time.Sleep(time.Minute)
		if w := s.Waiting(); w.Master != nil || w.Lapsed || len(w.Workers) > 0 || w.Idle != time.Minute {
			t.Errorf("a minute without grants: %+v", w)
		}
	})
}

func TestWaitingForWorkers(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		var serves atomic.Bool
		m := simple(fl, 4096, &fake.Worker{Fault: func(ctx context.Context, r *fake.Record) error {
			switch {
			case !serves.Load():
				return status.Error(codes.Unavailable, "not today")
			case r.Before > 0:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}})
		m.Frozen = true
		cfg := config(fl, "m")
		cfg.StreamTimeout = time.Hour
		s := open(t, cfg)
		time.Sleep(time.Minute)
		m.Change(func() { m.Frozen = false })
		time.Sleep(30 * time.Second)
		w := s.Waiting()
		if len(w.Workers) != 1 || w.Workers[0].Name != "w1" || w.Workers[0].Address != fl.Address("w1") ||
			status.Code(w.Workers[0].Err) != codes.Unavailable ||
			!strings.Contains(w.Workers[0].Err.Error(), "not today") {
			t.Errorf("while the worker serves nothing: %+v", w)
		}
		if w.Idle < 28*time.Second || w.Idle > 30*time.Second { // the grants came by a Sync in between
			t.Errorf("idle for %v; it was granted something 30 s ago", w.Idle)
		}
		serves.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		s.Prepare(ctx.Done())
		if w := s.Waiting(); len(w.Workers) != 1 || w.Idle < time.Minute || w.Idle > 2*time.Minute {
			t.Errorf("while it sends nothing any more after one record: %+v", w)
		}
	})
}

func TestWaitingForAMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		var away atomic.Bool
		m := simple(fl, 16, &fake.Worker{})
		m.Intercept = func(req proto.Message) error {
			if _, sync := req.(*pb.SyncRequest); sync && away.Load() {
				return status.Error(codes.Unavailable, "etcd is away")
			}
			return nil
		}
		s := open(t, config(fl, "m"))
		away.Store(true)
		for _, at := range []struct {
			after  time.Duration
			lapsed bool
		}{{time.Minute, false}, {time.Minute, true}} {
			time.Sleep(at.after)
			synctest.Wait()
			w := s.Waiting()
			var failed *MasterError
			if !errors.As(w.Master, &failed) || failed.Op != "sync" || failed.Address != "m" || w.Lapsed != at.lapsed {
				t.Errorf("without a master: %+v", w)
			}
		}
		away.Store(false)
		time.Sleep(time.Minute)
		if w := s.Waiting(); w.Master != nil || w.Lapsed {
			t.Errorf("with a master again: %+v", w)
		}
	})
}

// TestErrorsAreToldApart by their types, which have what a message to the user is made of.
func TestErrorsAreToldApart(t *testing.T) {
	end := func(t *testing.T, fl *fake.Net) error {
		_, err := open(t, config(fl, "m")).Next(t.Context())
		return err
	}
	refuses := func(code codes.Code) *fake.Worker {
		return &fake.Worker{Fault: func(context.Context, *fake.Record) error { return status.Error(code, "so it is") }}
	}
	t.Run("master", func(t *testing.T) {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			fl.Master("m", &fake.Master{
				Intercept: func(proto.Message) error { return status.Error(codes.InvalidArgument, mistakes) },
			})
			_, err := Open(t.Context(), config(fl, "m"))
			var e *MasterError
			if !errors.As(err, &e) || e.Op != "open" || e.Address != "m" ||
				status.Code(e.Err) != codes.InvalidArgument {
				t.Errorf("%v is %+v", err, e)
			}
		})
	})
	t.Run("failed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			m := simple(fl, 16, &fake.Worker{})
			m.Failure = "so it is"
			err := end(t, fl)
			var e *FailedError
			if !errors.As(err, &e) || *e != (FailedError{Session: "run-1/train", Words: "so it is"}) ||
				errors.Is(err, ErrData) {
				t.Errorf("%v is %+v", err, e)
			}
		})
	})
	t.Run("data", func(t *testing.T) {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			simple(fl, 16, refuses(codes.DataLoss))
			err := end(t, fl)
			var e *FailedError
			if !errors.As(err, &e) || !strings.Contains(e.Words, "so it is") || !errors.Is(err, ErrData) {
				t.Errorf("%v is %+v", err, e)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			simple(fl, 16, refuses(codes.InvalidArgument))
			err := end(t, fl)
			var e *RefusedError
			if !errors.As(err, &e) || e.Session != "run-1/train" || e.Address != "w1" || e.File != "mem://part" ||
				e.Shard != e.Shard.ShardStart() ||
				status.Code(e.Err) != codes.InvalidArgument || errors.Is(err, ErrNoWorker) {
				t.Errorf("%v is %+v", err, e)
			}
		})
	})
}

// TestRanksThatDoNotJoin are waited for where all ranks make equally many steps: never is the epoch a shorter one. Who
// waits is told of them, and at last ends with an error.
func TestRanksThatDoNotJoin(t *testing.T) {
	for _, c := range []struct {
		name string
		last pb.LastBatch
		left bool // rank 2 joined and left, and is none of those that are waited for
		want string
	}{
		{name: "pad", last: pb.LastBatch_PAD, want: "ranks 1 2 of 3"},
		{name: "pad, of which one left", last: pb.LastBatch_PAD, left: true, want: "rank 1 of 3"},
		{name: "drop", last: pb.LastBatch_DROP, want: "ranks 1 2 of 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *fake.Net) {
				m := simple(fl, 16, &fake.Worker{})
				m.World, m.Data.Epochs, m.Spec = 3, 5, &pb.Spec{BatchSize: 16, LastBatch: c.last, Epochs: 5}
				var said strings.Builder
				cfg := config(fl, "m")
				cfg.Spec, cfg.WorldSize, cfg.JoinTimeout, cfg.Logger = m.Spec, 3, time.Hour,
					slog.New(slog.NewTextHandler(&said, nil))
				if c.left {
					other := cfg
					other.Rank = 2
					if err := open(t, other).Close(); err != nil {
						t.Fatal(err)
					}
				}
				s := open(t, cfg)
				begun := time.Now()
				var err error
				for err == nil {
					_, err = s.Next(t.Context())
				}
				var absent *AbsentError
				if !errors.As(err, &absent) || !strings.Contains(err.Error(), c.want) ||
					!strings.Contains(err.Error(), "world_size=1") {
					t.Fatalf("Next: %v; want an AbsentError that names the %s", err, c.want)
				}
				if waited := time.Since(begun); absent.Waited < time.Hour || waited > time.Hour+time.Minute {
					t.Errorf("it says that it waited for %v, and took %v; it had an hour", absent.Waited, waited)
				}
				<-s.done
				if n := strings.Count(said.String(), "that have not joined"); n != 1 ||
					strings.Count(said.String(), "waiting_for_ranks") != 1 {
					t.Errorf("the log says %d times that this rank waits for others:\n%s", n, said.String())
				}
				if m.Closed != 0 {
					t.Errorf("%d epochs are closed", m.Closed)
				}
			})
		})
	}
}

// TestARankThatJoinsLate is waited for where all ranks make equally many steps; else it is too late, and gets an empty
// pass of each epoch that the others have read.
func TestARankThatJoinsLate(t *testing.T) {
	d := fake.NewDataset(4, 3, 8)
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		fl.Master("m", &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 3, Run: 2, World: 2})
		reads := make(chan map[uint32]int, 2)
		var ids [2][]int64
		for rank := range uint32(2) {
			go func() {
				time.Sleep(time.Duration(rank) * 9 * time.Minute) // of the bubble
				cfg := config(fl, "m")
				cfg.Spec, cfg.Rank, cfg.WorldSize = spec, rank, 2
				s, err := Open(t.Context(), cfg)
				if err != nil {
					t.Error(err)
					reads <- nil
					return
				}
				var batches map[uint32]int
				ids[rank], batches = readEpochs(t, s)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				reads <- batches
			}()
		}
		a, b := <-reads, <-reads
		if spec.LastBatch != pb.LastBatch_DROP {
			exactlyOnce(t, d, slices.Concat(ids[0], ids[1]))
		}
		uneven := spec.LastBatch == pb.LastBatch_UNEVEN
		for epoch := range d.Epochs {
			if !uneven && (a[epoch] == 0 || a[epoch] != b[epoch]) {
				t.Errorf("the ranks got %d and %d batches of epoch %d", a[epoch], b[epoch], epoch)
			}
		}
		if uneven && spec.Order == pb.Order_FAST && len(ids[1]) > 0 {
			t.Errorf("the late rank got %d rows of epochs that were over", len(ids[1]))
		}
	})
}
