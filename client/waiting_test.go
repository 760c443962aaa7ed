package client

import (
	"context"
	"errors"
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
		if len(w.Workers) != 1 || w.Workers[0].Name != "w1" || w.Workers[0].Address != fl.Address("w1") || status.Code(w.Workers[0].Err) != codes.Unavailable ||
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
			t.Errorf("while it sends nothing any more behind one record: %+v", w)
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
			fl.Master("m", &fake.Master{Intercept: func(proto.Message) error { return status.Error(codes.InvalidArgument, mistakes) }})
			_, err := Open(t.Context(), config(fl, "m"))
			var e *MasterError
			if !errors.As(err, &e) || e.Op != "open" || e.Address != "m" || status.Code(e.Err) != codes.InvalidArgument {
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
			if !errors.As(err, &e) || *e != (FailedError{Session: "run-1/train", Words: "so it is"}) || errors.Is(err, ErrData) {
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
			if !errors.As(err, &e) || e.Session != "run-1/train" || e.Address != "w1" || e.File != "mem://part" || e.Shard != e.Shard.ShardStart() ||
				status.Code(e.Err) != codes.InvalidArgument || errors.Is(err, ErrNoWorker) {
				t.Errorf("%v is %+v", err, e)
			}
		})
	})
}
