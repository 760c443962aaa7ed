package serve

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

// heldBack is for how long a stream's trainer must have had no room for the next batch before its place may go to
// another stream. Ranks that wait for each other after each batch need this: one of them cannot take more before
// another one has its rows, for which there may be no other place in the fleet.
const heldBack = time.Second

// pressedBack is for how long where another stream of the session, whose trainer takes from them in turns, waits for
// place or memory.
const pressedBack = 100 * time.Millisecond

var errYielded = errors.New(
	"busy: another stream needs the place, of a session with fewer of them, or of a trainer with room; go on at the " +
		"cursor")

// place is what a stream or a count has of the worker while it runs.
type place struct {
	ctx    context.Context // ends with the call, with errDraining or with errYielded
	cancel context.CancelCauseFunc
	sends  time.Time // since when; zero: it does not. Under Server.mu

	session string
	file    string
	weight  float64 // of the session, in its share of the pool
	since   time.Time
}

// enter takes a place for a call, whose trainer may take from its streams in turns. If all are taken, the one goes for
// it that has been held back longest, or one of the session that has most for its weight.
func (s *Server) enter(ctx context.Context, t *pb.Ticket, turns bool) (*place, error) {
	p := &place{
		session: t.GetNamespace() + "\x00" + t.GetSession(), file: t.GetFile().GetUri(),
		weight: cmp.Or(max(0, t.GetWeight()), 1), since: time.Now(),
	}
	select {
	case s.slots <- struct{}{}:
	default:
		if leaves := s.yield() || s.share(p) || turns && s.relieve(p.session); !leaves {
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
	p := s.longest(heldBack, func(*place) bool { return true })
	if p == nil {
		return false
	}
	p.cancel(errYielded)
	return true
}

// relieve ends the stream of a session that has been held back longest, and no other before it has left. It reports
// whether one leaves.
func (s *Server) relieve(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places[s.relieved] {
		return true
	}
	p := s.longest(pressedBack, func(p *place) bool { return p.session == session })
	if p == nil {
		return false
	}
	s.relieved = p
	p.cancel(errYielded)
	return true
}

// longest is which place of some has been held back longest, if one has been for so long.
func (s *Server) longest(held time.Duration, of func(*place) bool) (longest *place) {
	since := time.Now().Add(-held)
	for p := range s.places {
		if !p.sends.IsZero() && p.sends.Before(since) && p.ctx.Err() == nil && of(p) {
			longest, since = p, p.sends
		}
	}
	return longest
}

// share ends a stream of the session that has the most places for its weight, if it would still have as many for it as
// the newcomer's session then: so a session that is cut does not cut back, and each has its part by weight. Each place
// is kept for a while, that its stream may get on.
func (s *Server) share(newcomer *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken, longest := map[string]int{}, map[string]*place{}
	for p := range s.places {
		if p.ctx.Err() != nil {
			continue
		}
		taken[p.session]++
		if l := longest[p.session]; l == nil || p.since.Before(l.since) {
			longest[p.session] = p
		}
	}
	own := float64(taken[newcomer.session]+1) / newcomer.weight
	if taken[newcomer.session] == 0 {
		own = 0 // whatever its weight: a session is not shut out by one that keeps another place
	}
	var victim *place
	most := 0.0
	for id, p := range longest {
		has := float64(taken[id]-1) / p.weight
		if id != newcomer.session && taken[id] > 1 && has >= own && (victim == nil || has > most) &&
			time.Since(p.since) >= heldBack {
			victim, most = p, has
		}
	}
	if victim == nil {
		return false
	}
	victim.cancel(errYielded)
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
