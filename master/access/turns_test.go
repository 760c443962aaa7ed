package access_test

import (
	"testing"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
)

// TestTurns holds that no namespace takes the turns of others, and that one comes back once.
func TestTurns(t *testing.T) {
	vision, speech, all := identity.Identity{Namespace: "vision"}, identity.Identity{Namespace: "speech"}, identity.Identity{Everywhere: true, Namespace: "vision"}
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
