package access_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
)

// TestTurns holds that no namespace takes the turns of others, and that one comes back once.
func TestTurns(t *testing.T) {
	vision, speech, all := identity.Identity{Namespace: "vision"}, identity.Identity{Namespace: "speech"},
		identity.Identity{Everywhere: true, Namespace: "vision"}
	turns := access.NewTurns(4, 2)
	take := func(who identity.Identity, want bool) func() {
		t.Helper()
		end, ok := turns.Take(who)
		if ok != want {
			t.Errorf("%+v has a turn: %v", who, ok)
		}
		return end
	}
	first := take(vision, true)
	take(vision, true)
	take(vision, false)
	take(all, true)
	last := take(speech, true)
	take(speech, false)
	take(all, false)
	first()
	first()
	take(vision, true)
	take(vision, false)
	last()
	take(vision, false)
	take(speech, true)
}

// TestTurnsAreAwaited holds that who waits for a turn gets one that is given back, and none once patience has ended.
func TestTurnsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := identity.Identity{Namespace: "vision"}
		turns := access.NewTurns(2, 1)
		end, ok := turns.Await(t.Context(), who)
		if !ok {
			t.Fatal("the first one waits")
		}
		got := make(chan bool, 1)
		wait := func() context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_, ok := turns.Await(ctx, who)
				got <- ok
			}()
			synctest.Wait()
			return cancel
		}
		for _, given := range []bool{false, true} {
			impatient := wait()
			if len(got) > 0 {
				t.Error("a namespace has more turns than it may")
			}
			if given {
				end()
			} else {
				impatient()
			}
			if <-got != given {
				t.Errorf("given back: %v, and it gets the opposite", given)
			}
			impatient()
		}
	})
}
