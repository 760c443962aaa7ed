package access

import (
	"context"
	"sync"

	"github.com/penstock-ml/penstock/internal/identity"
)

// Turns bounds what goes on at once, of all callers together and of one namespace's, so that none takes all. Callers of
// all namespaces are bound by the first alone.
type Turns struct {
	all, each int

	mu    sync.Mutex
	taken int
	of    map[string]int // by namespace
	back  chan struct{}  // closed when a turn is given back
}

// NewTurns returns turns for all, of which one namespace has so many at most.
func NewTurns(all, each int) *Turns {
	return &Turns{all: all, each: each, of: map[string]int{}, back: make(chan struct{})}
}

// Take takes a turn, which end gives back; ok is false if there is none for the caller now.
func (t *Turns) Take(who identity.Identity) (end func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken >= t.all || !who.Everywhere && t.of[who.Home()] >= t.each {
		return nil, false
	}
	t.add(who, 1)
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.add(who, -1)
		close(t.back)
		t.back = make(chan struct{})
	}), true
}

// Await takes a turn once there is one for the caller; ok is false if there was none before ctx ended.
func (t *Turns) Await(ctx context.Context, who identity.Identity) (end func(), ok bool) {
	for {
		t.mu.Lock()
		back := t.back
		t.mu.Unlock()
		if end, ok = t.Take(who); ok {
			return end, true
		}
		select {
		case <-back:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (t *Turns) add(who identity.Identity, n int) {
	t.taken += n
	if who.Everywhere {
		return
	}
	if t.of[who.Home()] += n; t.of[who.Home()] == 0 {
		delete(t.of, who.Home())
	}
}
