package serve

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// heldBack is for how long a stream's trainer must have had no room for the next batch before its place may go to another stream.
// Ranks that wait for each other after each batch need this: one of them cannot take more before another one has its rows, for which
// there may be no other place in the fleet.
const heldBack = time.Second

var errYielded = errors.New("busy: its trainer had no room, and another stream needs the place; go on at the cursor")

// place is what a stream or a count has of the worker while it runs.
type place struct {
	ctx    context.Context // ends with the call, with errDraining or with errYielded
	cancel context.CancelCauseFunc
	sends  time.Time // since when; zero: it does not. Under Server.mu
}

// enter takes a place for a call. If all are taken, the one goes for it that has been held back longest.
func (s *Server) enter(ctx context.Context) (*place, error) {
	select {
	case s.slots <- struct{}{}:
	default:
		if !s.yield() {
			return nil, s.busy()
		}
		// The stream that yields frees its slot as soon as its send has ended. Another call may be quicker to take it.
		t := time.NewTimer(heldBack)
		defer t.Stop()
		select {
		case s.slots <- struct{}{}:
		case <-t.C:
			return nil, s.busy()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	p := &place{}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[p] = true
	return p, nil
}

func (s *Server) busy() error {
	return status.Errorf(codes.ResourceExhausted, "busy: all %d streams are taken; ask the next worker", cap(s.slots))
}

func (s *Server) leave(p *place) {
	p.cancel(nil)
	s.mu.Lock()
	delete(s.places, p)
	s.mu.Unlock()
	<-s.slots
}

// yield ends the stream that has been held back longest, if one has been for long enough.
func (s *Server) yield() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest *place
	for p := range s.places {
		if !p.sends.IsZero() && p.ctx.Err() == nil && (longest == nil || p.sends.Before(longest.sends)) {
			longest = p
		}
	}
	if longest == nil || time.Since(longest.sends) < heldBack {
		return false
	}
	longest.cancel(errYielded)
	return true
}

// sending notes that a stream sends while f runs.
func (s *Server) sending(p *place, f func() error) error {
	s.note(p, time.Now())
	defer s.note(p, time.Time{})
	return f()
}

func (s *Server) note(p *place, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.sends = since
}
