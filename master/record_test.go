package master

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/autoscale"
	"github.com/penstock-ml/penstock/master/events"
	"github.com/penstock-ml/penstock/master/store"
)

// fullKeeper keeps nothing until there is room.
type fullKeeper struct{ room atomic.Bool }

func (k *fullKeeper) Events(context.Context) ([]*pb.Event, error) { return nil, nil }

func (k *fullKeeper) AppendEvents(context.Context, []*pb.Event) error {
	if !k.room.Load() {
		return store.ErrFull
	}
	return nil
}

// A decision that cannot be recorded, and is made again and again, is one event.
func TestADecisionIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, logger := &fullKeeper{}, slog.New(slog.DiscardHandler)
		s := &scaler{term: &term{master: &Master{cfg: Config{Logger: logger}}, events: events.New(k, logger)}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.term.events.Run(ctx)
		}()
		decide := func() error {
			return s.record(ctx, &autoscale.Decision{From: 2, To: 3, News: true, Reason: "trainers wait"})
		}
		for range 3 {
			if decide() == nil {
				t.Error("it would be obeyed before it is recorded")
			}
		}
		k.room.Store(true)
		if err := decide(); err != nil {
			t.Error(err)
		}
		kept, err := s.term.events.List(ctx, 0, 0, func(*pb.Event) bool { return true })
		if err != nil || len(kept) != 1 {
			t.Errorf("events: %v, %v", kept, err)
		}
		cancel()
		<-done
	})
}
