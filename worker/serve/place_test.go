package serve

import (
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestSessionsSharePlaces: a session with many places gives them up to one with fewer for its weight, and never takes
// them back.
func TestSessionsSharePlaces(t *testing.T) {
	for weight, want := range map[float64]int{0: 2, 1: 2, 3: 3, 0.25: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := New(nil, 4, nil, slog.New(slog.DiscardHandler))
			enter := func(session string, weight float64) (err error) {
				p, err := s.enter(t.Context(), &pb.Ticket{Session: session, Weight: weight}, false)
				if err == nil {
					go func() { // its stream
						<-p.ctx.Done()
						s.leave(p)
					}()
				}
				return err
			}
			for range 4 {
				if err := enter("heavy", 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := enter("light", weight); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("weight %g: got %v of places that were just taken", weight, err)
			}
			got := 0
			for {
				time.Sleep(heldBack)
				if enter("light", weight) != nil {
					break
				}
				got++
			}
			if got != want {
				t.Errorf("weight %g: %d of 4 places, want %d", weight, got, want)
			}
			time.Sleep(heldBack)
			if err := enter("heavy", 0); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("weight %g: got %v, want the places to stay as they are", weight, err)
			}
			s.mu.Lock()
			left := slices.Collect(maps.Keys(s.places))
			s.mu.Unlock()
			for _, p := range left {
				p.cancel(nil)
			}
		})
	}
}

// TestTurns: a stream that its trainer does not take from gives its place to one of the same session that is taken from
// in turns, soon, and one after the other; to others only when it has been held back for long.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil, 2, nil, slog.New(slog.DiscardHandler))
		enter := func(session string, turns bool) *place {
			p, err := s.enter(t.Context(), &pb.Ticket{Session: session}, turns)
			if err != nil {
				return nil
			}
			return p
		}
		first, second := enter("a", true), enter("a", true)
		s.note(first, time.Now())
		s.note(second, time.Now().Add(time.Millisecond))
		time.Sleep(2 * pressedBack)
		for _, other := range []*place{enter("a", false), enter("b", true)} {
			if other != nil || first.ctx.Err() != nil || second.ctx.Err() != nil {
				t.Fatal("a place was given up too soon")
			}
		}
		leaves := make(chan struct{})
		go func() {
			<-first.ctx.Done()
			<-leaves
			s.leave(first)
		}()
		if enter("a", true) != nil || first.ctx.Err() == nil || second.ctx.Err() != nil {
			t.Error("want the stream that was held back longest to be ended, and no other before it has left")
		}
		s.note(second, time.Now())
		time.Sleep(2 * pressedBack)
		if enter("a", true) != nil || second.ctx.Err() != nil {
			t.Error("a second stream was ended before the first has left")
		}
		close(leaves)
		synctest.Wait()
		third := enter("a", true)
		if third == nil {
			t.Fatal("found no place")
		}
		s.leave(second)
		s.leave(third)
	})
}
